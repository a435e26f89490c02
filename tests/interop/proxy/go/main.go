// Command judge sends and receives through a proxy with the Go client of 5.x and prints what it saw as a line of JSON:
// judge ENDPOINTS PREFIX COUNT [USER SECRET]. PREFIX names topics and groups. This client has no push consumer.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const patience = 50 * time.Second

var (
	endpoint, prefix = os.Args[1], os.Args[2]
	kinds            = []string{"normal", "fifo", "delay", "transaction"}
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func config(group string) *rmq.Config {
	return &rmq.Config{Endpoint: endpoint, ConsumerGroup: group, Credentials: signer()}
}

func signer() *credentials.SessionCredentials {
	if len(os.Args) > 5 {
		return &credentials.SessionCredentials{AccessKey: os.Args[4], AccessSecret: os.Args[5]}
	}
	return &credentials.SessionCredentials{}
}

func topic(kind string) string { return prefix + "-" + kind }

func message(kind, body string) *rmq.Message {
	return &rmq.Message{Topic: topic(kind), Body: []byte(body)}
}

func send(producer rmq.Producer, message *rmq.Message) {
	must(producer.Send(context.Background(), message))
}

func sendAll(producer rmq.Producer, count int) {
	for number := 0; number < count; number++ {
		normal := message("normal", strconv.Itoa(number))
		normal.SetTag([]string{"TagA", "TagB"}[number%2])
		normal.SetKeys("key", "Schlüssel")
		normal.AddProperty("colour", "blau ü")
		send(producer, normal)
		fifo := message("fifo", fmt.Sprintf("%d %d", number%2, number))
		fifo.SetMessageGroup(fmt.Sprintf("group %d", number%2))
		send(producer, fifo)
	}
	late := message("delay", "late")
	late.SetDelayTimestamp(time.Now().Add(3 * time.Second))
	send(producer, late)
	for _, word := range []string{"commit", "rollback", "unknown"} {
		transaction := producer.BeginTransaction()
		must(producer.SendWithTransaction(context.Background(), message("transaction", word+" it"), transaction))
		switch word {
		case "commit":
			check(transaction.Commit())
		case "rollback":
			check(transaction.RollBack())
		}
	}
}

// receive takes messages until count different ones came, or time is over: a transaction that was asked about twice may be there
// twice. With again the first one is put off once.
func receive(kind, expression string, count int, again bool) []*rmq.MessageView {
	subscription := map[string]*rmq.FilterExpression{topic(kind): rmq.NewFilterExpression(expression)}
	consumer := must(rmq.NewSimpleConsumer(config(topic(kind)+"-push"), rmq.WithAwaitDuration(5*time.Second),
		rmq.WithSubscriptionExpressions(subscription)))
	check(consumer.Start())
	var taken []*rmq.MessageView
	different := map[string]bool{}
	for end := time.Now().Add(patience); len(different) < count && time.Now().Before(end); {
		messages, err := consumer.Receive(context.Background(), 16, 60*time.Second)
		if err != nil && !strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
			log.Print(err)
		}
		for _, each := range messages {
			if again && string(each.GetBody()) == "0" && each.GetDeliveryAttempt() == 1 {
				check(consumer.ChangeInvisibleDuration(each, 10*time.Second))
				continue
			}
			check(consumer.Ack(context.Background(), each))
			taken = append(taken, each)
			different[string(each.GetBody())] = true
		}
	}
	check(consumer.GracefulStop())
	return taken
}

func bodies(messages []*rmq.MessageView, start string) []string {
	found := []string{}
	for _, each := range messages {
		if body := string(each.GetBody()); strings.HasPrefix(body, start) {
			found = append(found, body)
		}
	}
	return found
}

func main() {
	count := must(strconv.Atoi(os.Args[3]))
	os.Setenv(rmq.CLIENT_LOG_ROOT, os.Getenv("HOME"))
	rmq.ResetLogger()
	checker := &rmq.TransactionChecker{Check: func(message *rmq.MessageView) rmq.TransactionResolution {
		if strings.HasPrefix(string(message.GetBody()), "rollback") {
			return rmq.ROLLBACK
		}
		return rmq.COMMIT
	}}
	var topics []string
	for _, kind := range kinds {
		topics = append(topics, topic(kind))
	}
	producer := must(rmq.NewProducer(config(""), rmq.WithTransactionChecker(checker), rmq.WithTopics(topics...)))
	check(producer.Start())
	sendAll(producer, count)
	attempts := map[string]int32{}
	var colour string
	for _, each := range receive("normal", "TagA", count/2, true) {
		attempts[string(each.GetBody())] = each.GetDeliveryAttempt()
		colour = each.GetProperties()["colour"]
	}
	fifo := receive("fifo", "*", count, false)
	transactions := bodies(receive("transaction", "*", 2, false), "")
	sort.Strings(transactions)
	seen := map[string]any{
		"normal": attempts, "colour": colour, "transaction": transactions, "fifo": [][]string{bodies(fifo, "0 "), bodies(fifo, "1 ")},
		"delay": bodies(receive("delay", "*", 1, false), ""),
	}
	check(producer.GracefulStop())
	fmt.Println(string(must(json.Marshal(seen))))
}
