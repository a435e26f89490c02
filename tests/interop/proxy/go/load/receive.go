// Receiving: load receive ENDPOINT TOPIC GROUP CONSUMERS BATCH COUNT receives and acknowledges, each message by itself as RocketMQ's clients
// do, until there were so many.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"sync"
	"sync/atomic"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
)

const acksAtOnce = 8

type consumer struct {
	client       v2.MessagingServiceClient
	ctx          context.Context
	topic, group *v2.Resource
	batch        int32
}

// A proxy answers those alone that have said what they are.
func introduced(ctx context.Context, client v2.MessagingServiceClient, topic, group, name string, batch int) *consumer {
	ctx = metadata.AppendToOutgoingContext(ctx, "x-mq-client-id", name, "x-mq-language", "GO", "x-mq-client-version", "5.1.2")
	c := &consumer{client, ctx, &v2.Resource{Name: topic}, &v2.Resource{Name: group}, int32(batch)}
	stream, err := client.Telemetry(ctx)
	if err != nil {
		log.Fatal(err)
	}
	kind := v2.ClientType_SIMPLE_CONSUMER
	entry := &v2.SubscriptionEntry{Topic: c.topic, Expression: &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"}}
	settings := &v2.Settings{
		ClientType:     &kind,
		RequestTimeout: durationpb.New(3 * time.Second),
		PubSub:         &v2.Settings_Subscription{Subscription: &v2.Subscription{Group: c.group, Subscriptions: []*v2.SubscriptionEntry{entry}}},
		UserAgent:      &v2.UA{Language: v2.Language_GOLANG, Version: "5.1.2"},
	}
	if err := stream.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: settings}}); err != nil {
		log.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		log.Fatal(err)
	}
	return c
}

func (c *consumer) receive() []*v2.Message {
	ctx, cancel := context.WithTimeout(c.ctx, 20*time.Second)
	defer cancel()
	stream, err := c.client.ReceiveMessage(ctx, &v2.ReceiveMessageRequest{
		Group:             c.group,
		MessageQueue:      &v2.MessageQueue{Topic: c.topic},
		FilterExpression:  &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"},
		BatchSize:         c.batch,
		InvisibleDuration: durationpb.New(60 * time.Second),
	})
	if c.ctx.Err() != nil {
		return nil
	}
	if err != nil {
		log.Fatal(err)
	}
	var found []*v2.Message
	for {
		answer, err := stream.Recv()
		if err == io.EOF || c.ctx.Err() != nil {
			return found
		}
		if err != nil {
			log.Fatal(err)
		}
		if message := answer.GetMessage(); message != nil {
			found = append(found, message)
		}
		if status := answer.GetStatus(); status != nil && status.Code != v2.Code_OK && status.Code != v2.Code_MESSAGE_NOT_FOUND {
			log.Fatal(status)
		}
	}
}

func (c *consumer) ack(message *v2.Message) {
	handle := message.SystemProperties.GetReceiptHandle()
	entry := &v2.AckMessageEntry{MessageId: message.SystemProperties.MessageId, ReceiptHandle: handle}
	answer, err := c.client.AckMessage(c.ctx, &v2.AckMessageRequest{Group: c.group, Topic: c.topic, Entries: []*v2.AckMessageEntry{entry}})
	if c.ctx.Err() != nil {
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	if answer.Status.Code != v2.Code_OK {
		log.Fatal(answer.Status)
	}
}

func (c *consumer) ackAll(messages []*v2.Message) {
	var all sync.WaitGroup
	for at := 0; at < acksAtOnce; at++ {
		all.Add(1)
		go func(at int) {
			defer all.Done()
			for ; at < len(messages); at += acksAtOnce {
				c.ack(messages[at])
			}
		}(at)
	}
	all.Wait()
}

func receive(args []string) {
	endpoint, topic, group := args[0], args[1], args[2]
	consumers, batch, count := number(args[3]), number(args[4]), int64(number(args[5]))
	clients := connected(endpoint)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var done atomic.Int64
	var took atomic.Int64
	results := make([][]time.Duration, consumers)
	began := time.Now()
	var all sync.WaitGroup
	for at := 0; at < consumers; at++ {
		all.Add(1)
		go func(at int) {
			defer all.Done()
			c := introduced(ctx, clients[at%connections], topic, group, fmt.Sprintf("load-%d", at), batch)
			for done.Load() < count {
				asked := time.Now()
				messages := c.receive()
				results[at] = append(results[at], time.Since(asked))
				c.ackAll(messages)
				if total := done.Add(int64(len(messages))); total >= count && total-int64(len(messages)) < count {
					took.Store(int64(time.Since(began)))
					cancel() // those that still poll
				}
			}
		}(at)
	}
	all.Wait()
	show(float64(count)/time.Duration(took.Load()).Seconds(), results)
}
