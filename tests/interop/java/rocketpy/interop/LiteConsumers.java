package rocketpy.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** lite.*: DefaultLitePullConsumer, by subscription or by assignment. */
final class LiteConsumers {
    private final Map<String, DefaultLitePullConsumer> consumers = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("lite.start", this::start);
        commands.put("lite.poll", this::poll);
        commands.put("lite.seek", request -> {
            named(request).seek(request.queue(), request.integer("offset", 0));
            return null;
        });
        commands.put("lite.commit", request -> {
            named(request).commitSync();
            return null;
        });
        commands.put("lite.committed", request -> named(request).committed(request.queue()));
        commands.put("lite.offsetForTime", request -> named(request).offsetForTimestamp(request.queue(), request.integer("timestamp", 0)));
        commands.put("lite.shutdown", this::shutdown);
    }

    private DefaultLitePullConsumer named(Request request) {
        DefaultLitePullConsumer consumer = consumers.get(request.text("name"));
        if (consumer == null) {
            throw new IllegalArgumentException("no such lite pull consumer: " + request.text("name"));
        }
        return consumer;
    }

    private Object start(Request request) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(request.text("group"), request.credentials());
        request.configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(request.truth("autoCommit"));
        if (!request.truth("assign")) {
            consumer.subscribe(request.text("topic"), request.text("expression", "*"));
        }
        consumer.start();
        if (request.truth("assign")) {
            consumer.assign(consumer.fetchMessageQueues(request.text("topic")));
        }
        consumers.put(request.text("name"), consumer);
        return null;
    }

    /** Polls until count messages came or the time is over. */
    private Object poll(Request request) {
        long end = System.nanoTime() + request.integer("timeoutMs", 10000) * 1_000_000;
        List<MessageExt> messages = new ArrayList<>();
        while (messages.size() < request.integer("count", 1) && System.nanoTime() < end) {
            messages.addAll(named(request).poll(200));
        }
        return Messages.toList(messages);
    }

    private Object shutdown(Request request) {
        named(request).shutdown();
        return consumers.remove(request.text("name")) != null;
    }
}
