// Command load sends as fast as a proxy answers and prints what it saw as a line of JSON:
// load ENDPOINT TOPIC SENDERS BODY SECONDS, or what receive.go says. It speaks gRPC without a client's library: its own cost is small and the same for every proxy.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

const connections = 4

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func sender(client v2.MessagingServiceClient, topic string, body []byte, name string, until time.Time) (took []time.Duration) {
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-mq-client-id", name, "x-mq-language", "GOLANG", "x-mq-client-version", "5.1.2")
	for count := 0; time.Now().Before(until); count++ {
		message := &v2.Message{
			Topic:            &v2.Resource{Name: topic},
			Body:             body,
			SystemProperties: &v2.SystemProperties{MessageId: fmt.Sprintf("%s-%d", name, count), MessageType: v2.MessageType_NORMAL},
		}
		began := time.Now()
		answer, err := client.SendMessage(ctx, &v2.SendMessageRequest{Messages: []*v2.Message{message}})
		if err != nil {
			log.Fatal(err)
		}
		if answer.Status.Code != v2.Code_OK {
			log.Fatal(answer.Status)
		}
		took = append(took, time.Since(began))
	}
	return took
}

func connected(endpoint string) []v2.MessagingServiceClient {
	clients := make([]v2.MessagingServiceClient, connections)
	for at := range clients {
		connection, err := grpc.Dial(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		clients[at] = v2.NewMessagingServiceClient(connection)
	}
	return clients
}

func show(rate float64, results [][]time.Duration) {
	var took []time.Duration
	for _, each := range results {
		took = append(took, each...)
	}
	sort.Slice(took, func(left, right int) bool { return took[left] < took[right] })
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))].Seconds() * 1000 }
	seen := map[string]any{"rate": rate, "calls": len(took), "p50_ms": at(0.5), "p99_ms": at(0.99)}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		log.Fatal(err)
	}
}

func main() {
	if os.Args[1] == "receive" {
		receive(os.Args[2:])
		return
	}
	endpoint, topic := os.Args[1], os.Args[2]
	senders, body, seconds := number(os.Args[3]), make([]byte, number(os.Args[4])), number(os.Args[5])
	clients := connected(endpoint)
	began := time.Now()
	until := began.Add(time.Duration(seconds) * time.Second)
	results := make([][]time.Duration, senders)
	var all sync.WaitGroup
	for at := 0; at < senders; at++ {
		all.Add(1)
		go func(at int) {
			defer all.Done()
			results[at] = sender(clients[at%connections], topic, body, fmt.Sprintf("load-%d", at), until)
		}(at)
	}
	all.Wait()
	calls := 0
	for _, each := range results {
		calls += len(each)
	}
	show(float64(calls)/time.Since(began).Seconds(), results)
}
