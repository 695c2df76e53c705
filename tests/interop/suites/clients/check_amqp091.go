// amqp091-go, the client that RabbitMQ's team keeps for Go.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const checkSeconds = 40

var (
	host, port = os.Args[1], os.Args[2]
	names      int
)

type check struct {
	name string
	act  func(*amqp.Connection) error
}

func fresh(kind string) string {
	names++
	return fmt.Sprintf("interop-%d-%s-%d", os.Getpid(), kind, names)
}

func url(password, vhost string) string {
	return fmt.Sprintf("amqp://guest:%s@%s:%s/%s", password, host, port, vhost)
}

func same(expected, found any) error {
	if !reflect.DeepEqual(expected, found) {
		return fmt.Errorf("%v is not %v", found, expected)
	}
	return nil
}

// fails is an error unless err has the code and says the text.
func fails(err error, code int, text string) error {
	var told *amqp.Error
	if !errors.As(err, &told) || told.Code != code || !strings.Contains(told.Reason, text) {
		return fmt.Errorf("%v is not %d %s", err, code, text)
	}
	return nil
}

// first is the first of some errors that is one.
func first(found ...error) error {
	for _, err := range found {
		if err != nil {
			return err
		}
	}
	return nil
}

func publish(channel *amqp.Channel, exchange, key string, message amqp.Publishing) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, message)
	if err == nil && confirmation != nil && !confirmation.Wait() {
		err = errors.New("nacked")
	}
	return err
}

func publishesAndConsumes(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	queue, err := channel.QueueDeclare(fresh("queue"), true, false, false, false, nil)
	if err := first(err, channel.Confirm(false), channel.Qos(10, 0, false)); err != nil {
		return err
	}
	const count = 100
	for number := 0; number < count; number++ {
		message := amqp.Publishing{Body: []byte(strconv.Itoa(number)), DeliveryMode: amqp.Persistent}
		if err := publish(channel, "", queue.Name, message); err != nil {
			return err
		}
	}
	deliveries, err := channel.Consume(queue.Name, "tag", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for number := 0; number < count; number++ {
		delivery := <-deliveries
		if err := first(same(strconv.Itoa(number), string(delivery.Body)), delivery.Ack(false)); err != nil {
			return err
		}
	}
	err = channel.Cancel("tag", false)
	left, deleted := channel.QueueDelete(queue.Name, false, false, false)
	return first(err, deleted, same(0, left))
}

func carriesProperties(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return err
	}
	large := bytes.Repeat([]byte{7}, 300_000)
	headers := amqp.Table{"text": "a", "number": int32(1), "flag": true, "table": amqp.Table{"deep": 1.5}}
	message := amqp.Publishing{Headers: headers, ContentType: "text/plain", Priority: 5, Expiration: "60000", Body: large}
	if err := publish(channel, "", queue.Name, message); err != nil {
		return err
	}
	got, ok, err := channel.Get(queue.Name, true)
	return first(
		err, same(true, ok), same(true, bytes.Equal(large, got.Body)), same(headers, got.Headers),
		same("text/plain", got.ContentType), same(uint8(5), got.Priority), same("60000", got.Expiration),
	)
}

func requeues(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	if err := first(err, channel.Confirm(false)); err != nil {
		return err
	}
	for _, text := range []string{"a", "b", "c"} {
		if err := publish(channel, "", queue.Name, amqp.Publishing{Body: []byte(text)}); err != nil {
			return err
		}
	}
	_, _, one := channel.Get(queue.Name, false)
	second, _, other := channel.Get(queue.Name, false)
	if err := first(one, other, second.Nack(true, true)); err != nil {
		return err
	}
	var again []string
	for number := 0; number < 3; number++ {
		got, _, err := channel.Get(queue.Name, false)
		if err != nil {
			return err
		}
		again = append(again, fmt.Sprint(string(got.Body), got.Redelivered))
	}
	recovered := channel.Recover(true)
	purged, err := channel.QueuePurge(queue.Name, false)
	return first(same([]string{"atrue", "btrue", "cfalse"}, again), recovered, err, same(3, purged))
}

func routesAndReturns(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	inner, outer := fresh("exchange"), fresh("exchange")
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	err = first(
		err,
		channel.Confirm(false),
		channel.ExchangeDeclare(inner, "topic", false, true, false, false, nil),
		channel.ExchangeDeclare(outer, "headers", false, false, false, false, nil),
		channel.ExchangeBind(inner, "", outer, false, amqp.Table{"x-match": "any", "colour": "red"}),
		channel.QueueBind(queue.Name, "a.*.#", inner, false, nil),
	)
	if err != nil {
		return err
	}
	returns := channel.NotifyReturn(make(chan amqp.Return, 2))
	for _, colour := range []string{"red", "blue"} {
		message := amqp.Publishing{Headers: amqp.Table{"colour": colour}, Body: []byte(colour)}
		if err := publish(channel, outer, "a.b.c", message); err != nil {
			return err
		}
	}
	returned := <-returns
	got, _, err := channel.Get(queue.Name, true)
	return first(
		err, same("red", string(got.Body)), same("blue", string(returned.Body)),
		same(uint16(312), returned.ReplyCode), channel.ExchangeDelete(outer, false, false),
	)
}

func deadLetters(connection *amqp.Connection) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	dead, one := channel.QueueDeclare("", false, true, true, false, nil)
	arguments := amqp.Table{
		"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.Name,
	}
	queue, other := channel.QueueDeclare("", false, true, true, false, arguments)
	deliveries, third := channel.Consume(dead.Name, "", true, false, false, false, nil)
	if err := first(one, other, third); err != nil {
		return err
	}
	if err := publish(channel, "", queue.Name, amqp.Publishing{Body: []byte("x")}); err != nil {
		return err
	}
	delivery := <-deliveries
	death := delivery.Headers["x-death"].([]interface{})[0].(amqp.Table)
	return first(same("expired", death["reason"]), same(queue.Name, death["queue"]))
}

func tellsErrors(connection *amqp.Connection) error {
	name := fresh("queue")
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	_, missing := channel.QueueDeclarePassive(name, true, false, false, false, nil)
	other, err := connection.Channel()
	if err != nil {
		return err
	}
	_, declared := other.QueueDeclare(name, true, false, false, false, nil)
	_, different := other.QueueDeclare(name, false, false, false, false, nil)
	third, err := connection.Channel()
	if err != nil {
		return err
	}
	_, deleted := third.QueueDelete(name, false, false, false)
	_, refused := amqp.Dial(url("wrong", ""))
	_, nowhere := amqp.Dial(url("guest", "nope"))
	return first(
		fails(missing, 404, fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '/'", name)),
		declared,
		fails(different, 406, fmt.Sprintf("inequivalent arg 'durable' for queue '%s' in vhost '/'", name)),
		deleted,
		fails(refused, 403, ""),
		fails(nowhere, 403, ""),
	)
}

// run gives a check a connection, and its time.
func run(each check) error {
	connection, err := amqp.Dial(url("guest", ""))
	if err != nil {
		return err
	}
	defer connection.Close()
	ended := make(chan error, 1)
	go func() { ended <- each.act(connection) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(checkSeconds * time.Second):
		return fmt.Errorf("not within %d s", checkSeconds)
	}
}

func main() {
	checks := []check{
		{"publishes with confirms and consumes", publishesAndConsumes},
		{"carries properties and a large body", carriesProperties},
		{"requeues and marks what comes again", requeues},
		{"routes through exchanges bound to each other, and returns", routesAndReturns},
		{"a time limit and a dead letter", deadLetters},
		{"errors close the channel or refuse the connection", tellsErrors},
	}
	failed := false
	for _, each := range checks {
		if err := run(each); err != nil {
			failed = true
			fmt.Printf("FAIL\t%s\t%s\n", each.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Printf("PASS\t%s\t\n", each.name)
		}
	}
	if failed {
		os.Exit(1)
	}
}
