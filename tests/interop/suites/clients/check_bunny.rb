# Bunny, Ruby's client, which most programs in Ruby use.
# frozen_string_literal: true

require "bunny"
require "erb"
require "json"
require "net/http"
require "timeout"

CHECK_SECONDS = 40
HOST, PORT, ADMIN_PORT = ARGV[0], ARGV[1].to_i, ARGV[2].to_i
# More than two body frames at the usual frame_max of 131,072.
LARGE = ((0..255).to_a * 1200).pack("C*")
CHECKS = {}

def check(name, &act)
  CHECKS[name] = act
end

def fresh(kind = "queue")
  @count = (@count || 0) + 1
  "interop-#{Process.pid}-#{kind}-#{@count}"
end

def connected(**options)
  connection = Bunny.new(host: HOST, port: PORT, logger: Logger.new(IO::NULL), **options)
  connection.start
  yield connection
ensure
  connection.close if connection&.open?
end

def same(expected, found)
  raise "#{found.inspect} is not #{expected.inspect}" unless expected == found
end

def wait(seconds = 10)
  limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  until yield
    raise "not within #{seconds} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

    sleep 0.01
  end
end

# See that the block fails with an error of the class, and that it says the text.
def fails(error_class, text)
  yield
rescue error_class => error
  raise "#{error.class}: #{error.message}" unless error.message.include?(text)
else
  raise "no #{error_class}"
end

def api(request)
  request.basic_auth("guest", "guest")
  Net::HTTP.start(HOST, ADMIN_PORT) { |http| http.request(request) }
end

# Names of the connections whose client gave this name for itself.
def named(name)
  found = JSON.parse(api(Net::HTTP::Get.new("/api/connections")).body)
  found.select { |each| each.dig("client_properties", "connection_name") == name }.map { |each| each["name"] }
end

check "publishes with confirms and consumes" do
  connected do |connection|
    channel = connection.create_channel
    channel.confirm_select
    channel.prefetch(10)
    queue = channel.queue(fresh, durable: true)
    100.times { |number| queue.publish(number.to_s, persistent: true) }
    same true, channel.wait_for_confirms
    got = Queue.new
    consumer = queue.subscribe(manual_ack: true) do |delivery, _, body|
      got << body.to_i
      channel.ack(delivery.delivery_tag)
    end
    same (0...100).to_a, (1..100).map { got.pop }
    consumer.cancel
    queue.delete
  end
end

check "carries properties and a large body" do
  connected do |connection|
    channel = connection.create_channel
    queue = channel.queue("", exclusive: true)
    headers = { "text" => "a", "number" => 1, "flag" => true, "list" => [1, "b"], "table" => { "deep" => 1.5 } }
    queue.publish(LARGE, headers: headers, content_type: "text/plain", correlation_id: "c", priority: 5, type: "t")
    _, properties, body = queue.pop
    same true, body == LARGE
    same headers, properties.headers
    same ["text/plain", "c", 5, "t"],
         [properties.content_type, properties.correlation_id, properties.priority, properties.type]
    same [nil, nil, nil], queue.pop
  end
end

check "rejects, requeues and marks what comes again" do
  connected do |connection|
    channel = connection.create_channel
    queue = channel.queue("", exclusive: true)
    %w[a b c].each { |text| queue.publish(text) }
    queue.pop(manual_ack: true)
    second, = queue.pop(manual_ack: true)
    channel.nack(second.delivery_tag, true, true)
    again = Array.new(3) { queue.pop(manual_ack: true) }
    same [["a", true], ["b", true], ["c", false]], again.map { |delivery, _, body| [body, delivery.redelivered?] }
    channel.reject(again[0][0].delivery_tag, false)
    channel.recover
    wait { queue.message_count == 2 }
  end
end

check "routes through exchanges bound to each other" do
  connected do |connection|
    channel = connection.create_channel
    queue = channel.queue("", exclusive: true)
    topic = channel.topic(fresh("exchange"), auto_delete: true)
    headers = channel.headers(fresh("exchange"))
    topic.bind(headers, arguments: { "x-match" => "any", "colour" => "red" })
    queue.bind(topic, routing_key: "a.*.#")
    returned = Queue.new
    headers.on_return { |info, _, _| returned << [info.reply_code, info.reply_text] }
    headers.publish("routed", routing_key: "a.b.c", headers: { "colour" => "red" })
    headers.publish("lost", routing_key: "a.b.c", headers: { "colour" => "blue" }, mandatory: true)
    same [312, "NO_ROUTE"], Timeout.timeout(10) { returned.pop }
    same "routed", queue.pop[2]
    headers.delete
  end
end

check "time limits and dead letters" do
  connected do |connection|
    channel = connection.create_channel
    dead = channel.queue("", exclusive: true)
    arguments = { "x-message-ttl" => 50, "x-dead-letter-exchange" => "", "x-dead-letter-routing-key" => dead.name }
    queue = channel.queue("", exclusive: true, arguments: arguments)
    queue.publish("x")
    wait { dead.message_count == 1 }
    _, properties, = dead.pop
    death = properties.headers["x-death"].first
    same [queue.name, "expired", 1], [death["queue"], death["reason"], death["count"]]
  end
end

check "a transaction" do
  connected do |connection|
    channel = connection.create_channel
    queue = channel.queue("", exclusive: true)
    channel.tx_select
    queue.publish("rolled back")
    channel.tx_rollback
    queue.publish("committed")
    same nil, queue.pop[2]
    channel.tx_commit
    same "committed", queue.pop[2]
  end
end

check "a deleted queue cancels its consumer" do
  connected do |connection|
    channel = connection.create_channel
    queue = channel.queue(fresh)
    cancelled = Queue.new
    consumer = Bunny::Consumer.new(channel, queue)
    consumer.on_cancellation { cancelled << true }
    queue.subscribe_with(consumer)
    connection.create_channel.queue_delete(queue.name)
    Timeout.timeout(10) { cancelled.pop }
  end
end

check "a connection that an administrator closes recovers with its consumer" do
  name = fresh("connection")
  connected(network_recovery_interval: 0.2, connection_name: name) do |connection|
    channel = connection.create_channel
    queue = channel.queue("", exclusive: true)
    got = Queue.new
    queue.subscribe { |_, _, body| got << body }
    wait(15) { named(name).any? }
    recovered = Queue.new
    connection.after_recovery_completed { recovered << true }
    api(Net::HTTP::Delete.new("/api/connections/#{ERB::Util.url_encode(named(name).first)}"))
    Timeout.timeout(15) { recovered.pop }
    queue.publish("after")
    same "after", Timeout.timeout(10) { got.pop }
  end
end

check "errors close the channel or the connection" do
  connected do |connection|
    name = fresh
    fails(Bunny::NotFound, "NOT_FOUND - no queue '#{name}' in vhost '/'") do
      connection.create_channel.queue(name, passive: true)
    end
    connection.create_channel.queue(name, durable: true)
    fails(Bunny::PreconditionFailed, "inequivalent arg 'durable' for queue '#{name}' in vhost '/'") do
      connection.create_channel.queue(name, durable: false)
    end
    connection.create_channel.queue_delete(name)
  end
  fails(Bunny::AuthenticationFailureError, "") { connected(password: "wrong") { nil } }
  fails(Bunny::NotAllowedError, "vhost nope not found") { connected(vhost: "nope") { nil } }
end

failed = false
CHECKS.each do |name, act|
  Timeout.timeout(CHECK_SECONDS, &act)
  puts "PASS\t#{name}\t"
rescue Exception => error # rubocop:disable Lint/RescueException -- whatever the client raises
  failed = true
  puts "FAIL\t#{name}\t#{"#{error.class}: #{error.message}".gsub(/\s+/, " ")[0, 300]}"
ensure
  $stdout.flush
end
exit!(failed ? 1 : 0)
