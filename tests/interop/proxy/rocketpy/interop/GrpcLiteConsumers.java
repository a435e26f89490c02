package rocketpy.interop;

import java.util.ArrayList;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.OffsetOption;

/** liteListener.*: a 5.x push consumer of lite topics that keeps each attempt. */
final class GrpcLiteConsumers {
    private final Map<String, GrpcConsumers.Inbox> inboxes = new ConcurrentHashMap<>();
    private final Map<String, LitePushConsumer> consumers = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("liteListener.start", this::start);
        commands.put("liteListener.subscribe", this::subscribe);
        commands.put("liteListener.unsubscribe", request -> {
            named(request).unsubscribeLite(request.text("liteTopic"));
            return true;
        });
        commands.put("liteListener.subscribed", request -> new ArrayList<Object>(named(request).getLiteTopicSet()));
        commands.put("liteListener.attempts", request ->
            inboxes.get(request.text("name")).await((int) request.integer("count", 0), request.integer("timeoutMs", 0)));
        commands.put("liteListener.shutdown", request -> {
            consumers.remove(request.text("name")).close();
            return true;
        });
    }

    private LitePushConsumer named(Request request) {
        return consumers.get(request.text("name"));
    }

    private Object start(Request request) throws Exception {
        GrpcConsumers.Inbox inbox = new GrpcConsumers.Inbox(request);
        consumers.put(request.text("name"), Grpc.PROVIDER.newLitePushConsumerBuilder()
            .setClientConfiguration(Grpc.configuration(request)).setConsumerGroup(request.text("group")).bindTopic(request.text("topic"))
            .setConsumptionThreadCount((int) request.integer("threads", 4)).setMessageListener(inbox::take).build());
        inboxes.put(request.text("name"), inbox);
        return request.text("group");
    }

    private Object subscribe(Request request) throws Exception {
        if (request.truth("fromFirst")) {
            named(request).subscribeLite(request.text("liteTopic"), OffsetOption.MIN_OFFSET);
        } else {
            named(request).subscribeLite(request.text("liteTopic"));
        }
        return true;
    }
}
