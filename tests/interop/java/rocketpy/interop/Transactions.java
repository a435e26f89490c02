package rocketpy.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * transaction.*: TransactionMQProducer. A body says what becomes of its message: words, the first for when it was sent, each later one for
 * a time it is asked about ("UNKNOW UNKNOW COMMIT"); past the last word it is unknown.
 */
final class Transactions {
    private static final class Listener implements TransactionListener {
        final List<Object> checks = new ArrayList<>();
        final Map<String, Integer> times = new ConcurrentHashMap<>();

        private static LocalTransactionState word(Message message, int number) {
            String[] words = new String(message.getBody(), StandardCharsets.UTF_8).split(" ");
            return number >= words.length ? LocalTransactionState.UNKNOW : stateOf(words[number]);
        }

        private static LocalTransactionState stateOf(String word) {
            return word.equals("COMMIT") ? LocalTransactionState.COMMIT_MESSAGE
                : word.equals("ROLLBACK") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return word(message, 0);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            int number = times.merge(message.getTransactionId(), 1, Integer::sum);
            synchronized (this) {
                checks.add(Messages.toMap(message));
                notifyAll();
            }
            return word(message, number);
        }

        synchronized List<Object> await(int count, long timeoutMs) throws InterruptedException {
            long end = System.nanoTime() + timeoutMs * 1_000_000;
            for (long left = timeoutMs; checks.size() < count && left > 0; left = (end - System.nanoTime()) / 1_000_000) {
                wait(left);
            }
            return new ArrayList<>(checks);
        }
    }

    private final Map<String, TransactionMQProducer> producers = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("transaction.start", this::start);
        commands.put("transaction.send", this::send);
        commands.put("transaction.checks", request -> ((Listener) named(request).getTransactionListener())
            .await((int) request.integer("count", 0), request.integer("timeoutMs", 0)));
        commands.put("transaction.shutdown", request -> {
            named(request).shutdown();
            return producers.remove(request.text("name")) != null;
        });
    }

    private TransactionMQProducer named(Request request) {
        TransactionMQProducer producer = producers.get(request.text("name"));
        if (producer == null) {
            throw new IllegalArgumentException("no such producer: " + request.text("name"));
        }
        return producer;
    }

    private Object start(Request request) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(request.text("group"), request.credentials());
        request.configure(producer);
        producer.setSendMsgTimeout(30000);
        producer.setTransactionListener(new Listener());
        producer.start();
        producers.put(request.text("name"), producer);
        return null;
    }

    private Object send(Request request) throws Exception {
        List<Object> results = new ArrayList<>();
        for (Request fields : request.requests("messages")) {
            results.add(Messages.toMap(named(request).sendMessageInTransaction(Messages.fromRequest(request.text("topic"), fields), null)));
        }
        return results;
    }
}
