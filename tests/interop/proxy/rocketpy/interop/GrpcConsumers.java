package rocketpy.interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** listener.*: a 5.x push consumer that keeps each attempt; simple.*: a simple consumer. */
final class GrpcConsumers {
    /** Refuses a message until its attempt number is above rejectTimes, and keeps all that came. */
    static final class Inbox {
        final int rejectTimes;
        final List<Object> attempts = new ArrayList<>();
        PushConsumer consumer;

        Inbox(Request request) {
            rejectTimes = (int) request.integer("rejectTimes", 0);
        }

        synchronized ConsumeResult take(MessageView message) {
            boolean taken = message.getDeliveryAttempt() > rejectTimes;
            Map<String, Object> map = Grpc.toMap(message);
            map.put("taken", taken);
            attempts.add(map);
            notifyAll();
            return taken ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
        }

        synchronized List<Object> await(int count, long timeoutMs) throws InterruptedException {
            long end = System.nanoTime() + timeoutMs * 1_000_000;
            for (long left = timeoutMs; attempts.size() < count && left > 0; left = (end - System.nanoTime()) / 1_000_000) {
                wait(left);
            }
            return new ArrayList<>(attempts);
        }
    }

    private final Map<String, Inbox> inboxes = new ConcurrentHashMap<>();
    private final Map<String, SimpleConsumer> simples = new ConcurrentHashMap<>();
    private final Map<String, MessageView> held = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("listener.start", this::listen);
        commands.put("listener.attempts", request ->
            inboxes.get(request.text("name")).await((int) request.integer("count", 0), request.integer("timeoutMs", 0)));
        commands.put("listener.shutdown", request -> {
            inboxes.remove(request.text("name")).consumer.close();
            return true;
        });
        commands.put("simple.start", this::start);
        commands.put("simple.receive", this::receive);
        commands.put("simple.ack", request -> {
            simple(request).ack(held.get(request.text("handle")));
            return true;
        });
        commands.put("simple.change", request -> {
            simple(request).changeInvisibleDuration(held.get(request.text("handle")), Duration.ofMillis(request.integer("invisibleMs", 0)));
            return true;
        });
        commands.put("simple.shutdown", request -> {
            simples.remove(request.text("name")).close();
            return true;
        });
    }

    private Object listen(Request request) throws Exception {
        Inbox inbox = new Inbox(request);
        inbox.consumer = Grpc.PROVIDER.newPushConsumerBuilder().setClientConfiguration(Grpc.configuration(request))
            .setConsumerGroup(request.text("group")).setSubscriptionExpressions(Grpc.subscriptions(request))
            .setConsumptionThreadCount((int) request.integer("threads", 4)).setMessageListener(inbox::take).build();
        inboxes.put(request.text("name"), inbox);
        return inbox.consumer.getConsumerGroup();
    }

    private SimpleConsumer simple(Request request) {
        return simples.get(request.text("name"));
    }

    private Object start(Request request) throws Exception {
        simples.put(request.text("name"), Grpc.PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(Grpc.configuration(request))
            .setConsumerGroup(request.text("group")).setSubscriptionExpressions(Grpc.subscriptions(request))
            .setAwaitDuration(Duration.ofMillis(request.integer("awaitMs", 2000))).build());
        return request.text("group");
    }

    /** The messages; each "handle" names one for ack and change until the next receive gives it another. */
    private Object receive(Request request) throws Exception {
        List<Object> received = new ArrayList<>();
        Duration invisible = Duration.ofMillis(request.integer("invisibleMs", 10_000));
        for (MessageView each : simple(request).receive((int) request.integer("count", 16), invisible)) {
            Map<String, Object> map = new LinkedHashMap<>(Grpc.toMap(each));
            String handle = each.getMessageId() + "#" + each.getDeliveryAttempt();
            held.put(handle, each);
            map.put("handle", handle);
            received.add(map);
        }
        return received;
    }
}
