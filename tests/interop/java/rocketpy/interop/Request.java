package rocketpy.interop;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** One command from the test: a JSON object with typed access. JSON goes through the client's own library, whichever that is. */
final class Request {
    private final Map<String, Object> fields;

    private Request(Map<String, Object> fields) {
        this.fields = fields;
    }

    @SuppressWarnings("unchecked")
    static Request parse(String line) {
        return new Request(RemotingSerializable.fromJson(line, Map.class));
    }

    static String json(Object value) {
        return RemotingSerializable.toJson(value, false);
    }

    boolean has(String name) {
        return fields.get(name) != null;
    }

    String text(String name) {
        Object value = fields.get(name);
        if (value == null) {
            throw new IllegalArgumentException("missing field: " + name);
        }
        return value.toString();
    }

    String text(String name, String otherwise) {
        return has(name) ? text(name) : otherwise;
    }

    long integer(String name, long otherwise) {
        return has(name) ? ((Number) fields.get(name)).longValue() : otherwise;
    }

    boolean truth(String name) {
        return Boolean.TRUE.equals(fields.get(name));
    }

    /** What signs the client's requests; null for one that nobody is to know. */
    RPCHook credentials() {
        return has("accessKey") ? new AclClientRPCHook(new SessionCredentials(text("accessKey"), text("secretKey"))) : null;
    }

    byte[] bytes(String name) {
        return Base64.getDecoder().decode(text(name).getBytes(StandardCharsets.US_ASCII));
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> object(String name) {
        return has(name) ? (Map<String, Object>) fields.get(name) : Collections.emptyMap();
    }

    @SuppressWarnings("unchecked")
    List<Object> list(String name) {
        return (List<Object>) fields.get(name);
    }

    @SuppressWarnings("unchecked")
    Request[] requests(String name) {
        return list(name).stream().map(each -> new Request((Map<String, Object>) each)).toArray(Request[]::new);
    }

    MessageQueue queue() {
        return new MessageQueue(text("topic"), text("broker"), (int) integer("queueId", 0));
    }

    /** What all clients share: addresses, a name of their own (so that no two share connections), patience, and quick housekeeping. */
    void configure(ClientConfig client) {
        client.setMqClientApiTimeout(30000); // for routes: a busy machine may need more than the usual 3 seconds
        client.setNamesrvAddr(text("namesrv"));
        client.setInstanceName(text("name") + "@" + ProcessHandle.current().pid());
        client.setPollNameServerInterval((int) integer("pollNameServerMs", 1000));
        client.setHeartbeatBrokerInterval((int) integer("heartbeatMs", 2000));
        client.setPersistConsumerOffsetInterval((int) integer("persistOffsetMs", 1000));
        if (has("useTLS")) {
            client.setUseTLS(truth("useTLS"));
        }
    }

    /** Calls client.method(enumConstant); enums like MessageModel moved between packages from 4.x to 5.x. */
    static void setEnum(Object client, String method, String constant) throws ReflectiveOperationException {
        Method setter = Arrays.stream(client.getClass().getMethods())
            .filter(each -> each.getName().equals(method) && each.getParameterCount() == 1).findFirst().orElseThrow();
        Object value = Arrays.stream(setter.getParameterTypes()[0].getEnumConstants())
            .filter(each -> ((Enum<?>) each).name().equals(constant)).findFirst().orElseThrow();
        setter.invoke(client, value);
    }

    static boolean has(Object client, String method) {
        return Arrays.stream(client.getClass().getMethods()).anyMatch(each -> each.getName().equals(method));
    }

    /** Calls client.method(arguments); what came with 5.x is not there when this is compiled against 4.x. */
    static Object invoke(Object client, String method, Object... arguments) {
        Method found = Arrays.stream(client.getClass().getMethods())
            .filter(each -> each.getName().equals(method) && each.getParameterCount() == arguments.length).findFirst()
            .orElseThrow(() -> new IllegalArgumentException("there is no " + client.getClass().getName() + "." + method));
        try {
            return found.invoke(client, arguments);
        } catch (ReflectiveOperationException thrown) {
            throw new IllegalStateException(thrown.getCause() == null ? thrown : thrown.getCause());
        }
    }
}
