package rocketpy.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** producer.*: DefaultMQProducer in every way of sending, and the queries it offers. */
final class Producers {
    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("producer.start", this::start);
        commands.put("producer.send", this::send);
        commands.put("producer.queues", request -> Messages.queues(named(request).fetchPublishMessageQueues(request.text("topic"))));
        commands.put("producer.view", request -> Messages.toMap(named(request).viewMessage(request.text("topic"), request.text("msgId"))));
        commands.put("producer.query", request -> Messages.toList(named(request).queryMessage(request.text("topic"), request.text("key"),
            (int) request.integer("max", 32), request.integer("begin", 0), request.integer("end", Long.MAX_VALUE)).getMessageList()));
        commands.put("producer.recall", request -> Request.invoke(named(request), "recallMessage", request.text("topic"),
            request.text("handle")));
        commands.put("producer.shutdown", this::shutdown);
    }

    private DefaultMQProducer named(Request request) {
        DefaultMQProducer producer = producers.get(request.text("name"));
        if (producer == null) {
            throw new IllegalArgumentException("no such producer: " + request.text("name"));
        }
        return producer;
    }

    private Object start(Request request) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(request.text("group"), request.credentials());
        request.configure(producer);
        producer.setSendMsgTimeout((int) request.integer("timeoutMs", 30000));
        producer.setRetryTimesWhenSendFailed((int) request.integer("retries", 2));
        producer.setRetryTimesWhenSendAsyncFailed((int) request.integer("retries", 2));
        producer.setMaxMessageSize((int) request.integer("maxMessageSize", 4 << 20));
        producer.setCompressMsgBodyOverHowmuch((int) request.integer("compressOver", 4096));
        if (request.has("compressType")) {
            Request.setEnum(producer, "setCompressType", request.text("compressType"));
        }
        producer.setDefaultTopicQueueNums((int) request.integer("defaultTopicQueueNums", 4));
        producer.start();
        producers.put(request.text("name"), producer);
        return null;
    }

    private Object shutdown(Request request) {
        named(request).shutdown();
        return producers.remove(request.text("name")) != null;
    }

    /** how: sync, async, oneway, batch, or with "queueId" to one queue, or with "selector" (an integer, taken modulo the queue count). */
    private Object send(Request request) throws Exception {
        DefaultMQProducer producer = named(request);
        String how = request.text("how", "sync");
        List<Message> messages = new ArrayList<>();
        for (Request fields : request.requests("messages")) {
            messages.add(Messages.fromRequest(request.text("topic"), fields));
        }
        List<Object> results = new ArrayList<>();
        if (how.equals("batch")) {
            SendResult result = request.has("broker") ? producer.send(messages, request.queue()) : producer.send(messages);
            results.add(Messages.toMap(result));
            return results;
        }
        List<CompletableFuture<SendResult>> waiting = new ArrayList<>();
        for (Message message : messages) {
            if (how.equals("oneway")) {
                oneway(producer, request, message);
            } else if (how.equals("async")) {
                waiting.add(async(producer, request, message));
            } else {
                results.add(Messages.toMap(sync(producer, request, message)));
            }
        }
        for (CompletableFuture<SendResult> future : waiting) {
            results.add(Messages.toMap(future.get(30, TimeUnit.SECONDS)));
        }
        return results;
    }

    private static MessageQueueSelector selector() {
        return (queues, message, argument) -> queues.get((int) ((Long) argument % queues.size()));
    }

    private static SendResult sync(DefaultMQProducer producer, Request request, Message message) throws Exception {
        if (request.has("selector")) {
            return producer.send(message, selector(), request.integer("selector", 0));
        }
        return request.has("broker") ? producer.send(message, request.queue()) : producer.send(message);
    }

    private static void oneway(DefaultMQProducer producer, Request request, Message message) throws Exception {
        if (request.has("selector")) {
            producer.sendOneway(message, selector(), request.integer("selector", 0));
        } else if (request.has("broker")) {
            producer.sendOneway(message, request.queue());
        } else {
            producer.sendOneway(message);
        }
    }

    private static CompletableFuture<SendResult> async(DefaultMQProducer producer, Request request, Message message) throws Exception {
        CompletableFuture<SendResult> future = new CompletableFuture<>();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                future.complete(result);
            }

            @Override
            public void onException(Throwable thrown) {
                future.completeExceptionally(thrown);
            }
        };
        if (request.has("selector")) {
            producer.send(message, selector(), request.integer("selector", 0), callback);
        } else if (request.has("broker")) {
            producer.send(message, request.queue(), callback);
        } else {
            producer.send(message, callback);
        }
        return future;
    }
}
