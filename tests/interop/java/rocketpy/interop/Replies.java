package rocketpy.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * request.*: a producer that asks and waits for the reply. reply.*: a consumer whose producer replies to each message with "re: " and
 * its body, unless that is "silence", and keeps what it was told of each reply.
 */
final class Replies {
    private static final class Replier {
        final DefaultMQPushConsumer consumer;
        final DefaultMQProducer producer;
        final String how;
        final int bytes;
        final List<Object> told = new ArrayList<>();

        Replier(Request request) {
            consumer = new DefaultMQPushConsumer(request.text("group"));
            producer = new DefaultMQProducer(request.text("group") + "-replies");
            how = request.text("how", "sync");
            bytes = (int) request.integer("bytes", 0);
        }

        synchronized void tell(Object result) {
            told.add(result);
            notifyAll();
        }

        synchronized List<Object> await(int count, long timeoutMs) throws InterruptedException {
            long end = System.nanoTime() + timeoutMs * 1_000_000;
            for (long left = timeoutMs; told.size() < count && left > 0; left = (end - System.nanoTime()) / 1_000_000) {
                wait(left);
            }
            return new ArrayList<>(told);
        }

        void reply(MessageExt asked) {
            String text = new String(asked.getBody(), StandardCharsets.UTF_8);
            if (text.equals("silence")) {
                return;
            }
            try {
                Message reply = MessageUtil.createReplyMessage(asked, ("re: " + text + ".".repeat(bytes)).getBytes(StandardCharsets.UTF_8));
                reply.putUserProperty("colour", "blue");
                send(reply);
            } catch (Exception thrown) {
                tell(String.valueOf((thrown.getCause() == null ? thrown : thrown.getCause()).getMessage())); // of the last try
            }
        }

        private void send(Message reply) throws Exception {
            if (how.equals("oneway")) {
                producer.sendOneway(reply);
                tell("oneway");
            } else if (how.equals("async")) {
                producer.send(reply, new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        tell(Messages.toMap(result));
                    }

                    @Override
                    public void onException(Throwable thrown) {
                        tell(String.valueOf(thrown.getMessage()));
                    }
                });
            } else {
                tell(Messages.toMap(producer.send(reply)));
            }
        }
    }

    private final Map<String, DefaultMQProducer> requesters = new ConcurrentHashMap<>();
    private final Map<String, Replier> repliers = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("request.start", this::startRequester);
        commands.put("request.ask", this::ask);
        commands.put("request.shutdown", request -> {
            requesters.remove(request.text("name")).shutdown();
            return null;
        });
        commands.put("reply.start", this::startReplier);
        commands.put("reply.told", request -> repliers.get(request.text("name"))
            .await((int) request.integer("count", 0), request.integer("timeoutMs", 0)));
        commands.put("reply.shutdown", request -> {
            Replier replier = repliers.remove(request.text("name"));
            replier.consumer.shutdown();
            replier.producer.shutdown();
            return null;
        });
    }

    private Object startRequester(Request request) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(request.text("group"));
        request.configure(producer);
        producer.setSendMsgTimeout(30000);
        producer.start();
        requesters.put(request.text("name"), producer);
        return producer.buildMQClientId();
    }

    private Object startReplier(Request request) throws Exception {
        Replier replier = new Replier(request);
        request.configure(replier.producer);
        replier.producer.setSendMsgTimeout(30000);
        replier.producer.setRetryTimesWhenSendFailed((int) request.integer("retries", 2));
        replier.producer.setRetryTimesWhenSendAsyncFailed((int) request.integer("retries", 2));
        replier.producer.start();
        request.configure(replier.consumer);
        replier.consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (Object topic : request.list("topics")) {
            replier.consumer.subscribe(topic.toString(), "*");
        }
        replier.consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(replier::reply);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        replier.consumer.start();
        repliers.put(request.text("name"), replier);
        return replier.consumer.buildMQClientId();
    }

    private Object ask(Request request) throws Exception {
        DefaultMQProducer producer = requesters.get(request.text("name"));
        Message message = Messages.fromRequest(request.text("topic"), request);
        long timeoutMs = request.integer("timeoutMs", 30000);
        if (request.text("how", "sync").equals("sync")) {
            return toMap(producer.request(message, timeoutMs));
        }
        CompletableFuture<Message> reply = new CompletableFuture<>();
        producer.request(message, new RequestCallback() {
            @Override
            public void onSuccess(Message received) {
                if (received != null) { // the client says so without a reply, too, when the question was sent
                    reply.complete(received);
                }
            }

            @Override
            public void onException(Throwable thrown) {
                reply.completeExceptionally(thrown);
            }
        }, timeoutMs);
        return toMap(reply.get(timeoutMs + 30000, TimeUnit.MILLISECONDS));
    }

    private static Object toMap(Message reply) {
        if (!(reply instanceof MessageExt)) {
            throw new IllegalStateException("a reply that is " + (reply == null ? "null" : reply.getClass() + " " + reply));
        }
        return Messages.toMap((MessageExt) reply);
    }
}
