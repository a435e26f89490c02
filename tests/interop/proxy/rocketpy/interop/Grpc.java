package rocketpy.interop;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;

/** What the clients that speak gRPC share: configurations, messages to and from plain maps. The driver takes this class as an argument. */
public final class Grpc {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    private Grpc() {
    }

    public static void register(Map<String, Driver.Command> commands) {
        new GrpcProducers().register(commands);
        new GrpcConsumers().register(commands);
        new GrpcLiteConsumers().register(commands);
    }

    static ClientConfiguration configuration(Request request) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder().setEndpoints(request.text("namesrv"));
        if (request.has("accessKey")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(request.text("accessKey"), request.text("secretKey")));
        }
        return builder.enableSsl(request.truth("ssl"))
            .setRequestTimeout(Duration.ofMillis(request.integer("requestTimeoutMs", 20_000))).build();
    }

    static Map<String, FilterExpression> subscriptions(Request request) {
        FilterExpression filter = request.has("sql") ? new FilterExpression(request.text("sql"), FilterExpressionType.SQL92)
            : new FilterExpression(request.text("expression", "*"), FilterExpressionType.TAG);
        Map<String, FilterExpression> all = new LinkedHashMap<>();
        request.list("topics").forEach(each -> all.put(each.toString(), filter));
        return all;
    }

    static Message message(String topic, Request fields) {
        MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(topic).setBody(fields.bytes("body"));
        if (fields.has("tags")) {
            builder.setTag(fields.text("tags"));
        }
        if (fields.has("keys")) {
            builder.setKeys(fields.text("keys").split(" "));
        }
        if (fields.has("messageGroup")) {
            builder.setMessageGroup(fields.text("messageGroup"));
        }
        if (fields.has("delayMs")) {
            builder.setDeliveryTimestamp(System.currentTimeMillis() + fields.integer("delayMs", 0));
        }
        if (fields.has("liteTopic")) {
            builder.setLiteTopic(fields.text("liteTopic"));
        }
        if (fields.has("priority")) {
            builder.setPriority((int) fields.integer("priority", 0));
        }
        fields.object("properties").forEach((name, value) -> builder.addProperty(name, value.toString()));
        return builder.build();
    }

    static Map<String, Object> toMap(MessageView message) {
        Map<String, Object> map = new LinkedHashMap<>();
        ByteBuffer body = message.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        map.put("msgId", message.getMessageId().toString());
        map.put("topic", message.getTopic());
        map.put("body", Base64.getEncoder().encodeToString(bytes));
        map.put("tags", message.getTag().orElse(null));
        map.put("keys", String.join(" ", message.getKeys()));
        map.put("messageGroup", message.getMessageGroup().orElse(null));
        map.put("liteTopic", message.getLiteTopic().orElse(null));
        map.put("priority", message.getPriority().orElse(null));
        map.put("deliveryTimestamp", message.getDeliveryTimestamp().orElse(null));
        map.put("bornHost", message.getBornHost());
        map.put("bornTimestamp", message.getBornTimestamp());
        map.put("attempt", message.getDeliveryAttempt());
        map.put("receivedTimestamp", System.currentTimeMillis());
        map.put("properties", message.getProperties() == null ? Collections.emptyMap() : message.getProperties());
        return map;
    }
}
