package rocketpy.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * push.*: DefaultMQPushConsumer that keeps what it received until the test asks. With "rejectTimes" a message is refused until it has
 * been consumed again so many times, and each attempt is kept, as it was at that moment: the client changes messages later.
 */
final class PushConsumers {
    private static final class Inbox {
        final DefaultMQPushConsumer consumer;
        final int rejectTimes;
        final boolean keepsAttempts;
        final List<MessageExt> received = new ArrayList<>();
        final List<Object> attempts = new ArrayList<>();

        Inbox(DefaultMQPushConsumer consumer, Request request) {
            this.consumer = consumer;
            rejectTimes = (int) request.integer("rejectTimes", 0);
            keepsAttempts = request.has("rejectTimes");
        }

        /** False for messages to be refused once more: they are then delivered again. */
        synchronized boolean take(List<MessageExt> messages) {
            boolean taken = messages.stream().allMatch(each -> each.getReconsumeTimes() >= rejectTimes);
            if (keepsAttempts) {
                for (MessageExt message : messages) {
                    Map<String, Object> attempt = Messages.toMap(message);
                    attempt.put("taken", taken);
                    attempt.put("receivedTimestamp", System.currentTimeMillis());
                    attempts.add(attempt);
                }
            }
            if (taken) {
                received.addAll(messages);
            }
            notifyAll();
            return taken;
        }

        synchronized <T> List<T> await(List<T> kept, int count, long timeoutMs) throws InterruptedException {
            long end = System.nanoTime() + timeoutMs * 1_000_000;
            for (long left = timeoutMs; kept.size() < count && left > 0; left = (end - System.nanoTime()) / 1_000_000) {
                wait(left);
            }
            return new ArrayList<>(kept);
        }
    }

    private final Map<String, Inbox> inboxes = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("push.start", this::start);
        commands.put("push.received", request -> Messages.toList(await(request, named(request).received)));
        commands.put("push.attempts", request -> await(request, named(request).attempts));
        commands.put("push.assigned", this::assigned);
        commands.put("push.popped", this::popped);
        commands.put("push.shutdown", this::shutdown);
    }

    private <T> List<T> await(Request request, List<T> kept) throws InterruptedException {
        return named(request).await(kept, (int) request.integer("count", 0), request.integer("timeoutMs", 0));
    }

    private Inbox named(Request request) {
        Inbox inbox = inboxes.get(request.text("name"));
        if (inbox == null) {
            throw new IllegalArgumentException("no such push consumer: " + request.text("name"));
        }
        return inbox;
    }

    private Object start(Request request) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(request.text("group"), request.credentials(),
            new AllocateMessageQueueAveragely());
        request.configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(request.text("from", "CONSUME_FROM_FIRST_OFFSET")));
        consumer.setPullBatchSize((int) request.integer("pullBatchSize", 32));
        consumer.setConsumeMessageBatchMaxSize((int) request.integer("batch", 1));
        // The listener hands a message over before the client has noted its offset; a shutdown lets it finish that and commit.
        consumer.setAwaitTerminationMillisWhenShutdown(5000);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax((int) request.integer("threads", 4));
        consumer.setPostSubscriptionWhenPull(request.truth("postSubscriptionWhenPull"));
        Request.setEnum(consumer, "setMessageModel", request.text("model", "CLUSTERING"));
        for (Object topic : request.list("topics")) {
            if (request.has("sql")) {
                consumer.subscribe(topic.toString(), org.apache.rocketmq.client.consumer.MessageSelector.bySql(request.text("sql")));
            } else {
                consumer.subscribe(topic.toString(), request.text("expression", "*"));
            }
        }
        if (request.has("maxReconsumeTimes")) {
            consumer.setMaxReconsumeTimes((int) request.integer("maxReconsumeTimes", 0));
        }
        if (request.has("popInvisibleTime")) {
            asksBroker(consumer, request.integer("popInvisibleTime", 60_000));
        }
        Inbox inbox = new Inbox(consumer, request);
        int nextDelayLevel = (int) request.integer("nextDelayLevel", 0);
        if (request.truth("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                inbox.take(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(nextDelayLevel);
                return inbox.take(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        inboxes.put(request.text("name"), inbox);
        return consumer.buildMQClientId();
    }

    /** The queues this consumer holds now; "locked" tells whether the broker granted the orderly lock. */
    private Object assigned(Request request) {
        Map<MessageQueue, ProcessQueue> table =
            named(request).consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable();
        String topic = request.text("topic");
        return table.entrySet().stream().filter(each -> each.getKey().getTopic().equals(topic) && !each.getValue().isDropped())
            .sorted(Map.Entry.comparingByKey())
            .map(each -> {
                Map<String, Object> map = Messages.toMap(each.getKey());
                map.put("locked", each.getValue().isLocked());
                return map;
            }).collect(Collectors.toList());
    }

    /** Queues are shared out by the broker, and popped where it says so: what 4.x does not know. A first retry is due in a second, of ten. */
    private static void asksBroker(DefaultMQPushConsumer consumer, long popInvisibleTimeMs) throws ReflectiveOperationException {
        consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        consumer.getClass().getMethod("setPopInvisibleTime", long.class).invoke(consumer, popInvisibleTimeMs);
        Object implementation = consumer.getDefaultMQPushConsumerImpl();
        java.lang.reflect.Method delays = implementation.getClass().getDeclaredMethod("getPopDelayLevel");
        delays.setAccessible(true);
        ((int[]) delays.invoke(implementation))[0] = 1;
    }

    /** The queues this consumer pops from; an id of -1 is all of a broker's. */
    private Object popped(Request request) throws ReflectiveOperationException {
        Object rebalance = named(request).consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl();
        Map<?, ?> table = (Map<?, ?>) rebalance.getClass().getMethod("getPopProcessQueueTable").invoke(rebalance);
        return table.keySet().stream().map(MessageQueue.class::cast).filter(each -> each.getTopic().equals(request.text("topic")))
            .sorted().map(Messages::toMap).collect(Collectors.toList());
    }

    private Object shutdown(Request request) {
        named(request).consumer.shutdown();
        return inboxes.remove(request.text("name")) != null;
    }
}
