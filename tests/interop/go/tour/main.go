// What the Go client offers beside plain sends and pushes: administration, broadcasting, messages in order, both kinds of pull consumer and a
// consumer that goes on where its group was. Usage: tour NAMESRV BROKER NAME COUNT. Prints one line of JSON with what it saw.
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
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const queues, patience = 4, 30 * time.Second

var everything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

type report struct {
	Listed, Gone  bool
	Groups        bool
	Broadcast     []int
	Compressed    bool
	InOrder       map[string][]string // sharding key → bodies as they came
	Polled        int
	Pulled        int
	Ends          []int64 // per queue: where a pull said there is no more
	IllegalOffset bool
	Resumed       []string
}

func must(doing string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
		os.Exit(1)
	}
}

func wait(holds func() bool) bool {
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// inbox keeps what a push consumer was given.
type inbox struct {
	lock   sync.Mutex
	bodies []string
	byKey  map[string][]string
}

func (in *inbox) count() int {
	in.lock.Lock()
	defer in.lock.Unlock()
	return len(in.bodies)
}

func (in *inbox) take(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	in.lock.Lock()
	defer in.lock.Unlock()
	for _, each := range messages {
		in.bodies = append(in.bodies, string(each.Body))
		in.byKey[each.GetShardingKey()] = append(in.byKey[each.GetShardingKey()], string(each.Body))
	}
	return consumer.ConsumeSuccess, nil
}

type tour struct {
	namesrv primitive.NamesrvAddr
	topic   string
	count   int
	ctx     context.Context
}

func (t *tour) push(topic, group, instance string, options ...consumer.Option) (rocketmq.PushConsumer, *inbox) {
	in := &inbox{byKey: map[string][]string{}}
	options = append(options, consumer.WithNameServer(t.namesrv), consumer.WithGroupName(group+"-"+t.topic),
		consumer.WithInstance(instance), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	made, err := rocketmq.NewPushConsumer(options...)
	must("new push consumer", err)
	must("subscribe", made.Subscribe(topic, everything, in.take))
	must("start "+instance, made.Start())
	return made, in
}

func (t *tour) producer(group string, options ...producer.Option) rocketmq.Producer {
	options = append(options, producer.WithNameServer(t.namesrv), producer.WithGroupName(group), producer.WithInstanceName(group),
		producer.WithCompressMsgBodyOverHowmuch(2000))
	made, err := rocketmq.NewProducer(options...)
	must("new producer", err)
	must("start producer", made.Start())
	return made
}

func (t *tour) send(by rocketmq.Producer, message *primitive.Message) {
	result, err := by.SendSync(t.ctx, message)
	must("send", err)
	if result.Status != primitive.SendOK {
		must("send", fmt.Errorf("status %d", result.Status))
	}
}

func (t *tour) broadcast(out *report, sender rocketmq.Producer) {
	one, first := t.push(t.topic, "cast", "cast-1", consumer.WithConsumerModel(consumer.BroadCasting))
	two, second := t.push(t.topic, "cast", "cast-2", consumer.WithConsumerModel(consumer.BroadCasting))
	group, shared := t.push(t.topic, "group", "group-1")
	large := make([]byte, 100_000)
	for at := range large {
		large[at] = byte('a' + at%7)
	}
	t.send(sender, primitive.NewMessage(t.topic, large))
	for number := 1; number < t.count; number++ {
		t.send(sender, primitive.NewMessage(t.topic, []byte(fmt.Sprintf("message %04d", number))))
	}
	wait(func() bool { return first.count() == t.count && second.count() == t.count && shared.count() == t.count })
	out.Broadcast = []int{first.count(), second.count(), shared.count()}
	for _, body := range shared.bodies {
		out.Compressed = out.Compressed || body == string(large)
	}
	for _, each := range []rocketmq.PushConsumer{one, two, group} {
		must("shut down", each.Shutdown())
	}
	t.send(sender, primitive.NewMessage(t.topic, []byte("one more")))
	group, shared = t.push(t.topic, "group", "group-2")
	wait(func() bool { return shared.count() > 0 })
	must("shut down", group.Shutdown())
	out.Resumed = shared.bodies
}

func (t *tour) inOrder(out *report, topic string) {
	sender := t.producer("GID-go-order", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	defer sender.Shutdown()
	receiver, in := t.push(topic, "order", "order", consumer.WithConsumerOrder(true))
	for number := 0; number < t.count; number++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("%04d", number)))
		message.WithShardingKey(fmt.Sprintf("key %d", number%5))
		t.send(sender, message)
	}
	wait(func() bool { return in.count() == t.count })
	must("shut down", receiver.Shutdown())
	out.InOrder = in.byKey
}

func (t *tour) pull(out *report, all []*primitive.MessageQueue) {
	puller, err := rocketmq.NewPullConsumer(consumer.WithNameServer(t.namesrv), consumer.WithGroupName("pull-"+t.topic),
		consumer.WithInstance("pull"), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must("new pull consumer", err)
	must("subscribe", puller.Subscribe(t.topic, everything))
	must("start pull consumer", puller.Start())
	wait(func() bool {
		if request, err := puller.Poll(t.ctx, time.Second); err == nil {
			out.Polled += len(request.GetMsgList())
			puller.ACK(t.ctx, request, consumer.ConsumeSuccess)
		}
		return out.Polled > t.count
	})
	must("persist", puller.PersistOffset(t.ctx, t.topic))
	out.IllegalOffset = true
	for _, queue := range all {
		offset := int64(0)
		for {
			result, err := puller.PullFrom(t.ctx, queue, offset, 32)
			must("pull", err)
			if result.Status != primitive.PullFound {
				out.Ends = append(out.Ends, result.MaxOffset)
				break
			}
			out.Pulled += len(result.GetMessageExts())
			offset = result.NextBeginOffset
		}
		beyond, err := puller.PullFrom(t.ctx, queue, offset+1000, 32)
		must("pull", err)
		out.IllegalOffset = out.IllegalOffset && beyond.Status == primitive.PullOffsetIllegal
	}
	must("shut down", puller.Shutdown())
}

func listed(list *admin.TopicList, topic string) bool {
	for _, each := range list.TopicList {
		if each == topic {
			return true
		}
	}
	return false
}

func main() {
	count, err := strconv.Atoi(os.Args[4])
	must("count", err)
	rlog.SetLogLevel("fatal")
	broker := os.Args[2]
	t := &tour{primitive.NamesrvAddr{os.Args[1]}, os.Args[3], count, context.Background()}
	ordered := t.topic + "-ordered"
	var out report

	operator, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(t.namesrv)))
	must("new admin", err)
	for _, topic := range []string{t.topic, ordered} {
		must("create topic", operator.CreateTopic(t.ctx, admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(broker),
			admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues), admin.WithOrder(topic == ordered)))
	}
	topics, err := operator.FetchAllTopicList(t.ctx)
	must("topic list", err)
	out.Listed = listed(topics, t.topic)
	all, err := operator.FetchPublishMessageQueues(t.ctx, t.topic)
	must("queues", err)

	sender := t.producer("GID-go-tour")
	t.broadcast(&out, sender)
	t.inOrder(&out, ordered)
	t.pull(&out, all)
	groups, err := operator.GetAllSubscriptionGroup(t.ctx, broker, 3*time.Second)
	must("groups", err)
	_, out.Groups = groups.SubscriptionGroupTable["group-"+t.topic]
	must("delete topic", operator.DeleteTopic(t.ctx, admin.WithTopicDelete(t.topic), admin.WithBrokerAddrDelete(broker)))
	topics, err = operator.FetchAllTopicList(t.ctx)
	must("topic list", err)
	out.Gone = !listed(topics, t.topic)
	must("shut down", sender.Shutdown())
	line, err := json.Marshal(out)
	must("json", err)
	fmt.Println(string(line))
}
