package rocketpy.interop;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageQueue;

/** pull.*: DefaultMQPullConsumer, one queue and one request at a time, and its offset queries. */
@SuppressWarnings("deprecation")
final class PullConsumers {
    private final Map<String, DefaultMQPullConsumer> consumers = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("pull.start", this::start);
        commands.put("pull.queues", request -> Messages.queues(named(request).fetchSubscribeMessageQueues(request.text("topic"))));
        commands.put("pull.pull", this::pull);
        commands.put("pull.minOffset", request -> named(request).minOffset(request.queue()));
        commands.put("pull.maxOffset", request -> named(request).maxOffset(request.queue()));
        commands.put("pull.searchOffset", request -> named(request).searchOffset(request.queue(), request.integer("timestamp", 0)));
        commands.put("pull.earliestTime", request -> named(request).earliestMsgStoreTime(request.queue()));
        commands.put("pull.fetchOffset", request -> named(request).fetchConsumeOffset(request.queue(), true));
        commands.put("pull.commitOffset", this::commitOffset);
        commands.put("pull.view", request -> Messages.toMap(named(request).viewMessage(request.text("topic"), request.text("msgId"))));
        commands.put("pull.shutdown", this::shutdown);
    }

    private DefaultMQPullConsumer named(Request request) {
        DefaultMQPullConsumer consumer = consumers.get(request.text("name"));
        if (consumer == null) {
            throw new IllegalArgumentException("no such pull consumer: " + request.text("name"));
        }
        return consumer;
    }

    private Object start(Request request) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(request.text("group"), request.credentials());
        request.configure(consumer);
        consumer.setBrokerSuspendMaxTimeMillis(request.integer("suspendMs", 20000));
        consumer.start();
        consumers.put(request.text("name"), consumer);
        return null;
    }

    private Object pull(Request request) throws Exception {
        DefaultMQPullConsumer consumer = named(request);
        String expression = request.text("expression", "*");
        long offset = request.integer("offset", 0);
        int max = (int) request.integer("max", 32);
        long begin = System.nanoTime();
        PullResult result = request.truth("block")
            ? consumer.pullBlockIfNotFound(request.queue(), expression, offset, max)
            : consumer.pull(request.queue(), expression, offset, max);
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("status", result.getPullStatus().name());
        map.put("next", result.getNextBeginOffset());
        map.put("min", result.getMinOffset());
        map.put("max", result.getMaxOffset());
        map.put("tookMs", (System.nanoTime() - begin) / 1_000_000);
        map.put("messages", Messages.toList(result.getMsgFoundList()));
        return map;
    }

    private Object commitOffset(Request request) throws Exception {
        DefaultMQPullConsumer consumer = named(request);
        MessageQueue queue = request.queue();
        consumer.updateConsumeOffset(queue, request.integer("offset", 0));
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        return null;
    }

    private Object shutdown(Request request) {
        named(request).shutdown();
        return consumers.remove(request.text("name")) != null;
    }
}
