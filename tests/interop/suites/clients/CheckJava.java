// RabbitMQ's own client for Java, as Debian has it. Run as one source file.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public final class CheckJava {
    private static final int CHECK_SECONDS = 40;
    private static String host;
    private static int port;
    private static int names;
    private static final List<Check> CHECKS = new ArrayList<>();

    private interface Act {
        void run() throws Exception;
    }

    private interface WithConnection {
        void run(Connection connection) throws Exception;
    }

    private static final class Check {
        final String name;
        final Act act;

        Check(String name, Act act) {
            this.name = name;
            this.act = act;
        }
    }

    private static String fresh(String kind) {
        names += 1;
        return "interop-" + ProcessHandle.current().pid() + "-" + kind + "-" + names;
    }

    private static ConnectionFactory factory() {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(host);
        factory.setPort(port);
        return factory;
    }

    private static void connected(WithConnection act) throws Exception {
        Connection connection = factory().newConnection();
        try {
            act.run(connection);
        } finally {
            if (connection.isOpen()) {
                connection.close();
            }
        }
    }

    private static void same(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError(found + " is not " + expected);
        }
    }

    /** See that the act fails, and that the error or its cause says the text. */
    private static void fails(String text, Act act) throws Exception {
        try {
            act.run();
        } catch (Exception error) {
            String said = error + " " + error.getCause();
            if (!said.contains(text)) {
                throw new AssertionError(said + " does not say " + text);
            }
            return;
        }
        throw new AssertionError("no error");
    }

    private static void publishesWithConfirmsAndConsumes(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        String queue = fresh("queue");
        channel.queueDeclare(queue, true, false, false, null);
        AMQP.BasicProperties persistent = new AMQP.BasicProperties.Builder().deliveryMode(2).build();
        for (int number = 0; number < 200; number++) {
            channel.basicPublish("", queue, persistent, String.valueOf(number).getBytes());
        }
        channel.waitForConfirmsOrDie(10_000);
        BlockingQueue<Integer> got = new LinkedBlockingQueue<>();
        channel.basicQos(10);
        String tag = channel.basicConsume(queue, false, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                    throws IOException {
                got.add(Integer.parseInt(new String(body)));
                channel.basicAck(envelope.getDeliveryTag(), false);
            }
        });
        for (int number = 0; number < 200; number++) {
            same(number, got.poll(10, TimeUnit.SECONDS));
        }
        channel.basicCancel(tag);
        same(0, channel.queueDelete(queue).getMessageCount());
    }

    private static void carriesPropertiesAndALargeBody(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = channel.queueDeclare().getQueue();
        byte[] large = new byte[300_000];
        Arrays.fill(large, (byte) 7);
        Map<String, Object> headers = Map.of("number", 1, "flag", true, "list", List.of(1, 2), "table", Map.of("a", 1.5));
        channel.basicPublish("", queue, new AMQP.BasicProperties.Builder()
                .headers(headers).contentType("text/plain").correlationId("c").priority(5).type("t").build(), large);
        GetResponse got = channel.basicGet(queue, true);
        same(true, Arrays.equals(large, got.getBody()));
        same(headers, got.getProps().getHeaders());
        same("text/plain", got.getProps().getContentType());
        same(5, got.getProps().getPriority());
        same(true, channel.basicGet(queue, true) == null);
    }

    private static void requeuesAndMarksWhatComesAgain(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = channel.queueDeclare().getQueue();
        for (String text : List.of("a", "b", "c")) {
            channel.basicPublish("", queue, null, text.getBytes());
        }
        channel.basicGet(queue, false);
        channel.basicNack(channel.basicGet(queue, false).getEnvelope().getDeliveryTag(), true, true);
        List<String> again = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            GetResponse got = channel.basicGet(queue, false);
            again.add(new String(got.getBody()) + got.getEnvelope().isRedeliver());
        }
        same(List.of("atrue", "btrue", "cfalse"), again);
        channel.basicRecover(true);
        same(3, channel.queuePurge(queue).getMessageCount());
    }

    private static void routesAndReturns(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        String queue = channel.queueDeclare().getQueue();
        String inner = fresh("exchange");
        String outer = fresh("exchange");
        channel.exchangeDeclare(inner, "topic", false, true, null);
        channel.exchangeDeclare(outer, "headers", false, false, null);
        channel.exchangeBind(inner, outer, "", Map.of("x-match", "any", "colour", "red"));
        channel.queueBind(queue, inner, "a.*.#");
        BlockingQueue<String> returned = new LinkedBlockingQueue<>();
        channel.addReturnListener((code, text, exchange, key, properties, body) -> returned.add(code + text));
        for (String colour : List.of("red", "blue")) {
            channel.basicPublish(outer, "a.b.c", true, new AMQP.BasicProperties.Builder()
                    .headers(Map.of("colour", colour)).build(), colour.getBytes());
        }
        channel.waitForConfirmsOrDie(10_000);
        same("312NO_ROUTE", returned.poll(10, TimeUnit.SECONDS));
        same("red", new String(channel.basicGet(queue, true).getBody()));
        channel.exchangeDelete(outer);
    }

    private static void deadLettersAndTransactions(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String dead = channel.queueDeclare().getQueue();
        Map<String, Object> arguments =
                Map.of("x-message-ttl", 50, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead);
        String queue = channel.queueDeclare("", false, true, true, arguments).getQueue();
        channel.txSelect();
        channel.basicPublish("", queue, null, "rolled back".getBytes());
        channel.txRollback();
        channel.basicPublish("", queue, null, "committed".getBytes());
        channel.txCommit();
        GetResponse got = null;
        while (got == null) {
            Thread.sleep(20);
            got = channel.basicGet(dead, true);
        }
        same("committed", new String(got.getBody()));
        same(true, got.getProps().getHeaders().get("x-death").toString().contains("reason=expired"));
    }

    private static void rpc(Connection connection) throws Exception {
        Channel serving = connection.createChannel();
        String queue = serving.queueDeclare().getQueue();
        RpcServer server = new RpcServer(serving, queue) {
            @Override
            public byte[] handleCall(byte[] body, AMQP.BasicProperties replyProperties) {
                return ("re: " + new String(body)).getBytes();
            }
        };
        Thread thread = new Thread(() -> {
            try {
                server.mainloop();
            } catch (IOException | ShutdownSignalException error) {
                // the check is over
            }
        });
        thread.setDaemon(true);
        thread.start();
        RpcClient client = new RpcClient(connection.createChannel(), "", queue, 10_000);
        for (int number = 0; number < 20; number++) {
            same("re: " + number, client.stringCall(String.valueOf(number)));
        }
        client.close();
        server.terminateMainloop();
    }

    private static void errors() throws Exception {
        connected(connection -> {
            String name = fresh("queue");
            String missing = "NOT_FOUND - no queue '" + name + "' in vhost '/'";
            fails(missing, () -> connection.createChannel().queueDeclarePassive(name));
            connection.createChannel().queueDeclare(name, true, false, false, null);
            Channel channel = connection.createChannel();
            String other = "inequivalent arg 'durable' for queue '" + name + "' in vhost '/'";
            fails(other, () -> channel.queueDeclare(name, false, false, false, null));
            same(false, channel.isOpen());
            fails("", () -> channel.basicQos(1));
            connection.createChannel().queueDelete(name);
        });
        ConnectionFactory wrong = factory();
        wrong.setPassword("wrong");
        fails("ACCESS_REFUSED", wrong::newConnection);
        ConnectionFactory nowhere = factory();
        nowhere.setVirtualHost("nope");
        fails("vhost nope not found", nowhere::newConnection);
    }

    private static void add(String name, WithConnection act) {
        CHECKS.add(new Check(name, () -> connected(act)));
    }

    public static void main(String[] arguments) {
        host = arguments[0];
        port = Integer.parseInt(arguments[1]);
        add("publishes with confirms and consumes", CheckJava::publishesWithConfirmsAndConsumes);
        add("carries properties and a large body", CheckJava::carriesPropertiesAndALargeBody);
        add("requeues and marks what comes again", CheckJava::requeuesAndMarksWhatComesAgain);
        add("routes through exchanges bound to each other, and returns", CheckJava::routesAndReturns);
        add("a transaction, a time limit and a dead letter", CheckJava::deadLettersAndTransactions);
        add("RPC by direct reply-to", CheckJava::rpc);
        CHECKS.add(new Check("errors close the channel or the connection", CheckJava::errors));
        ExecutorService executor = Executors.newCachedThreadPool();
        boolean failed = false;
        for (Check check : CHECKS) {
            Future<?> future = executor.submit(() -> {
                check.act.run();
                return null;
            });
            try {
                future.get(CHECK_SECONDS, TimeUnit.SECONDS);
                System.out.println("PASS\t" + check.name + "\t");
            } catch (Exception error) {
                failed = true;
                Throwable cause = error.getCause() == null ? error : error.getCause();
                System.out.println("FAIL\t" + check.name + "\t" + cause.toString().replaceAll("\\s+", " "));
            }
        }
        System.exit(failed ? 1 : 0);
    }
}
