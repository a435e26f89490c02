// The Go client (github.com/apache/rocketmq-client-go) as a judge: sends in every way, reads it back by push with a tag expression, and
// prints one line of JSON with what it saw. Usage: judge NAMESRV TOPIC GROUP COUNT [ACCESS_KEY SECRET_KEY]. Exit 0 when all that was expected arrived in time.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type report struct {
	Statuses map[string]int    `json:"statuses"`
	Received map[string]string `json:"received"` // body → tag
	Repeated int               `json:"repeated"`
}

func fail(doing string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
		os.Exit(1)
	}
}

// What requests are signed with, when the command line says it.
func credentials() (primitive.Credentials, bool) {
	if len(os.Args) < 7 {
		return primitive.Credentials{}, false
	}
	return primitive.Credentials{AccessKey: os.Args[5], SecretKey: os.Args[6]}, true
}

func message(topic, how string, number int) *primitive.Message {
	made := primitive.NewMessage(topic, []byte(fmt.Sprintf("%s %04d", how, number)))
	made.WithTag([]string{"TagA", "TagB"}[number%2])
	made.WithKeys([]string{fmt.Sprintf("%s-%d", how, number)})
	return made
}

func send(out *report, namesrv, topic string, count int) {
	options := []producer.Option{producer.WithNameServer([]string{namesrv}), producer.WithGroupName("GID-go-producer")}
	if who, signs := credentials(); signs {
		options = append(options, producer.WithCredentials(who))
	}
	sender, err := rocketmq.NewProducer(options...)
	fail("new producer", err)
	fail("start producer", sender.Start())
	defer sender.Shutdown()
	ctx := context.Background()
	var lock sync.Mutex
	note := func(result *primitive.SendResult, err error) {
		fail("send", err)
		lock.Lock()
		defer lock.Unlock()
		out.Statuses[strconv.Itoa(int(result.Status))]++
	}
	batch := make([]*primitive.Message, 0, count)
	var waiting sync.WaitGroup
	for number := 0; number < count; number++ {
		note(sender.SendSync(ctx, message(topic, "sync", number)))
		fail("oneway", sender.SendOneWay(ctx, message(topic, "oneway", number)))
		waiting.Add(1)
		fail("async", sender.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
			note(result, err)
			waiting.Done()
		}, message(topic, "async", number)))
		batch = append(batch, message(topic, "batch", number))
	}
	waiting.Wait()
	note(sender.SendSync(ctx, batch...))
}

func main() {
	namesrv, topic, group := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	fail("count", err)
	rlog.SetLogLevel("error")
	out := report{Statuses: map[string]int{}, Received: map[string]string{}}
	var lock sync.Mutex
	arrived := make(chan struct{}, 1)

	options := []consumer.Option{consumer.WithNameServer([]string{namesrv}), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
	if who, signs := credentials(); signs {
		options = append(options, consumer.WithCredentials(who))
	}
	receiver, err := rocketmq.NewPushConsumer(options...)
	fail("new consumer", err)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA || TagC"}
	fail("subscribe", receiver.Subscribe(topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, each := range messages {
			if _, twice := out.Received[string(each.Body)]; twice {
				out.Repeated++
			}
			out.Received[string(each.Body)] = each.GetTags()
		}
		select {
		case arrived <- struct{}{}:
		default:
		}
		return consumer.ConsumeSuccess, nil
	}))
	fail("start consumer", receiver.Start())
	send(&out, namesrv, topic, count)

	expected := 4 * ((count + 1) / 2)
	deadline := time.After(30 * time.Second)
	for complete := false; !complete; {
		select {
		case <-arrived:
		case <-deadline:
			complete = true
		}
		lock.Lock()
		complete = complete || len(out.Received) >= expected
		lock.Unlock()
	}
	lock.Lock()
	line, err := json.Marshal(out)
	lock.Unlock()
	fail("json", err)
	fmt.Println(string(line))
	if len(out.Received) != expected {
		os.Exit(1)
	}
}
