<?php
// php-amqplib, the client in plain PHP.

declare(strict_types=1);

require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const CHECK_SECONDS = 40;
[, $host, $port] = $argv;
// More than two body frames at the usual frame_max of 131,072.
$large = str_repeat(implode('', array_map('chr', range(0, 255))), 1200);
$names = 0;

function fresh(string $kind = 'queue'): string
{
    global $names;
    return sprintf('interop-%d-%s-%d', getmypid(), $kind, ++$names);
}

function connect(string $password = 'guest', string $vhost = '/'): AMQPStreamConnection
{
    global $host, $port;
    return new AMQPStreamConnection($host, (int) $port, 'guest', $password, $vhost);
}

function same(mixed $expected, mixed $found): void
{
    if ($expected !== $found) {
        throw new RuntimeException(sprintf('%s is not %s', json_encode($found), json_encode($expected)));
    }
}

/** See that $act fails with an error of $class that says $text. */
function fails(string $class, string $text, callable $act): void
{
    try {
        $act();
    } catch (Throwable $error) {
        if (!$error instanceof $class || !str_contains($error->getMessage(), $text)) {
            throw new RuntimeException(sprintf('%s: %s', get_class($error), $error->getMessage()));
        }
        return;
    }
    throw new RuntimeException("no $class");
}

$checks = [
    'publishes with confirms and consumes' => function (): void {
        $connection = connect();
        $channel = $connection->channel();
        $queue = fresh();
        $channel->queue_declare($queue, false, true, false, false);
        $channel->confirm_select();
        $confirmed = 0;
        $channel->set_ack_handler(function () use (&$confirmed): void {
            $confirmed++;
        });
        for ($number = 0; $number < 100; $number++) {
            $message = new AMQPMessage((string) $number, ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT]);
            $channel->basic_publish($message, '', $queue);
        }
        $channel->wait_for_pending_acks(10);
        same(100, $confirmed);
        $got = [];
        $channel->basic_qos(0, 10, false);
        $tag = $channel->basic_consume($queue, '', false, false, false, false, function ($message) use (&$got): void {
            $got[] = (int) $message->getBody();
            $message->ack();
        });
        while (count($got) < 100) {
            $channel->wait(null, false, 10);
        }
        same(range(0, 99), $got);
        $channel->basic_cancel($tag);
        same(0, $channel->queue_delete($queue));
        $connection->close();
    },
    'carries properties and a large body' => function () use ($large): void {
        $connection = connect();
        $channel = $connection->channel();
        [$queue] = $channel->queue_declare('', false, false, true);
        $headers = ['text' => 'a', 'number' => 1, 'flag' => true, 'list' => [1, 'b'], 'table' => ['deep' => 'c']];
        $message = new AMQPMessage($large, [
            'content_type' => 'text/plain',
            'correlation_id' => 'c',
            'priority' => 5,
            'expiration' => '60000',
            'application_headers' => new AMQPTable($headers),
        ]);
        $channel->basic_publish($message, '', $queue);
        $got = $channel->basic_get($queue, true);
        same(true, $got->getBody() === $large);
        same($headers, $got->get('application_headers')->getNativeData());
        same(['text/plain', 'c', 5], [$got->get('content_type'), $got->get('correlation_id'), $got->get('priority')]);
        same(null, $channel->basic_get($queue));
        $connection->close();
    },
    'rejects, requeues and marks what comes again' => function (): void {
        $connection = connect();
        $channel = $connection->channel();
        [$queue] = $channel->queue_declare('', false, false, true);
        foreach (['a', 'b', 'c'] as $text) {
            $channel->basic_publish(new AMQPMessage($text), '', $queue);
        }
        $channel->basic_get($queue);
        $channel->basic_nack($channel->basic_get($queue)->getDeliveryTag(), true, true);
        $again = [];
        for ($number = 0; $number < 3; $number++) {
            $message = $channel->basic_get($queue);
            $again[] = [$message->getBody(), (bool) $message->isRedelivered()];
        }
        same([['a', true], ['b', true], ['c', false]], $again);
        $channel->basic_recover(true);
        same(3, $channel->queue_purge($queue));
        $connection->close();
    },
    'routes through a topic exchange, and returns what cannot be routed' => function (): void {
        $connection = connect();
        $channel = $connection->channel();
        $channel->confirm_select();
        $exchange = fresh('exchange');
        $channel->exchange_declare($exchange, 'topic', false, false, true);
        [$queue] = $channel->queue_declare('', false, false, true);
        $channel->queue_bind($queue, $exchange, 'a.*.#');
        $returned = [];
        $channel->set_return_listener(function (int $code, string $text) use (&$returned): void {
            $returned[] = [$code, $text];
        });
        $channel->basic_publish(new AMQPMessage('x'), $exchange, 'a.b.c', true);
        $channel->basic_publish(new AMQPMessage('y'), $exchange, 'b', true);
        $channel->wait_for_pending_acks_returns(10);
        same([[312, 'NO_ROUTE']], $returned);
        same('x', $channel->basic_get($queue, true)->getBody());
        $connection->close();
    },
    'time limits and dead letters' => function (): void {
        $connection = connect();
        $channel = $connection->channel();
        [$dead] = $channel->queue_declare('', false, false, true);
        $arguments = ['x-message-ttl' => 50, 'x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => $dead];
        [$queue] = $channel->queue_declare('', false, false, true, true, false, new AMQPTable($arguments));
        $channel->basic_publish(new AMQPMessage('x'), '', $queue);
        $death = null;
        $channel->basic_consume($dead, '', false, true, false, false, function ($message) use (&$death): void {
            $death = $message->get('application_headers')->getNativeData()['x-death'][0];
        });
        while ($death === null) {
            $channel->wait(null, false, 10);
        }
        same([$queue, 'expired', 1], [$death['queue'], $death['reason'], $death['count']]);
        $connection->close();
    },
    'a transaction' => function (): void {
        $connection = connect();
        $channel = $connection->channel();
        [$queue] = $channel->queue_declare('', false, false, true);
        $channel->tx_select();
        $channel->basic_publish(new AMQPMessage('rolled back'), '', $queue);
        $channel->tx_rollback();
        $channel->basic_publish(new AMQPMessage('committed'), '', $queue);
        same(null, $channel->basic_get($queue));
        $channel->tx_commit();
        same('committed', $channel->basic_get($queue)->getBody());
        $connection->close();
    },
    'errors close the channel or the connection' => function (): void {
        $connection = connect();
        $name = fresh();
        fails(AMQPProtocolChannelException::class, "NOT_FOUND - no queue '$name' in vhost '/'", function () use ($connection, $name): void {
            $connection->channel()->queue_declare($name, true);
        });
        $connection->channel()->queue_declare($name, false, true, false, false);
        $text = "inequivalent arg 'durable' for queue '$name' in vhost '/'";
        fails(AMQPProtocolChannelException::class, $text, function () use ($connection, $name): void {
            $connection->channel()->queue_declare($name, false, false, false, false);
        });
        $connection->channel()->queue_delete($name);
        $connection->close();
        fails(AMQPConnectionClosedException::class, 'ACCESS_REFUSED', fn () => connect('wrong'));
        fails(AMQPConnectionClosedException::class, 'vhost nope not found', fn () => connect('guest', 'nope'));
    },
];

$failed = false;
foreach ($checks as $name => $act) {
    set_time_limit(CHECK_SECONDS);
    try {
        $act();
        echo "PASS\t$name\t\n";
    } catch (Throwable $error) {
        $failed = true;
        echo "FAIL\t$name\t", preg_replace('/\s+/', ' ', get_class($error) . ': ' . $error->getMessage()), "\n";
    }
}
exit($failed ? 1 : 0);
