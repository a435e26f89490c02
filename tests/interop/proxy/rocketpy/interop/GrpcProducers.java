package rocketpy.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * sender.*: a 5.x producer. In a transaction the body says what becomes of a message, and what its producer says when it is asked:
 * "UNKNOWN COMMIT".
 */
final class GrpcProducers {
    private final Map<String, Producer> producers = new ConcurrentHashMap<>();
    private final Map<String, List<Object>> checks = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("sender.start", this::start);
        commands.put("sender.send", this::send);
        commands.put("sender.recall", request ->
            named(request).recallMessage(request.text("topic"), request.text("handle")).getMessageId().toString());
        commands.put("sender.checks", request -> checked(request.text("name")));
        commands.put("sender.shutdown", this::shutdown);
    }

    private Producer named(Request request) {
        return producers.get(request.text("name"));
    }

    private List<Object> checked(String name) {
        List<Object> kept = checks.get(name);
        synchronized (kept) {
            return new ArrayList<>(kept);
        }
    }

    private Object start(Request request) throws Exception {
        String name = request.text("name");
        checks.put(name, new ArrayList<>());
        ProducerBuilder builder = Grpc.PROVIDER.newProducerBuilder().setClientConfiguration(Grpc.configuration(request))
            .setMaxAttempts((int) request.integer("maxAttempts", 3))
            .setTopics(request.list("topics").stream().map(Object::toString).toArray(String[]::new));
        if (request.truth("transaction")) {
            builder.setTransactionChecker(message -> check(name, message));
        }
        producers.put(name, builder.build());
        return name;
    }

    private TransactionResolution check(String name, MessageView message) {
        List<Object> kept = checks.get(name);
        synchronized (kept) {
            kept.add(Grpc.toMap(message));
        }
        return TransactionResolution.valueOf(StandardCharsets.UTF_8.decode(message.getBody()).toString().split(" ")[1]);
    }

    private Object send(Request request) throws Exception {
        List<Object> receipts = new ArrayList<>();
        for (Request each : request.requests("messages")) {
            receipts.add(sendOne(request, each));
        }
        return receipts;
    }

    private Object sendOne(Request request, Request fields) throws Exception {
        Producer producer = named(request);
        Transaction transaction = request.truth("transaction") ? producer.beginTransaction() : null;
        SendReceipt receipt = transaction == null ? producer.send(Grpc.message(request.text("topic"), fields))
            : producer.send(Grpc.message(request.text("topic"), fields), transaction);
        if (transaction != null) {
            String outcome = new String(fields.bytes("body"), StandardCharsets.UTF_8).split(" ")[0];
            if (outcome.equals("COMMIT")) {
                transaction.commit();
            } else if (outcome.equals("ROLLBACK")) {
                transaction.rollback();
            }
        }
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("msgId", receipt.getMessageId().toString());
        map.put("recallHandle", receipt.getRecallHandle());
        return map;
    }

    private Object shutdown(Request request) throws Exception {
        producers.remove(request.text("name")).close();
        return true;
    }
}
