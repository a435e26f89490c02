package rocketpy.interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * load.*: threads that send as fast as they are answered until they are stopped or the broker is gone, and remember every message
 * that was acknowledged with SEND_OK: its body, queue and queue offset. Nothing is sent twice: a failed send is given up.
 */
final class Loads {
    private static final class Load {
        final DefaultMQProducer producer;
        final List<Thread> threads = new ArrayList<>();
        final List<Object> acknowledged = Collections.synchronizedList(new ArrayList<>());
        final AtomicInteger refused = new AtomicInteger();
        volatile boolean stopping;

        Load(DefaultMQProducer producer) {
            this.producer = producer;
        }

        void run(String name, String topic, int thread, int size) {
            for (int number = 0; !stopping; number++) {
                String text = name + " " + thread + "-" + number + " ";
                String body = text + "x".repeat((number * 37 + thread) % size);
                try {
                    SendResult result = producer.send(new Message(topic, "T" + number % 3, "K" + thread + "-" + number, body.getBytes()));
                    if (result.getSendStatus() == SendStatus.SEND_OK) {
                        acknowledged.add(List.of(body, result.getMessageQueue().getBrokerName(), result.getMessageQueue().getQueueId(),
                            result.getQueueOffset()));
                    } else {
                        refused.incrementAndGet();
                    }
                } catch (Exception gone) {
                    if (refused.incrementAndGet() > 20) {
                        return;
                    }
                }
            }
        }
    }

    private final Map<String, Load> loads = new ConcurrentHashMap<>();

    void register(Map<String, Driver.Command> commands) {
        commands.put("load.start", this::start);
        commands.put("load.count", request -> loads.get(request.text("name")).acknowledged.size());
        commands.put("load.shutdown", this::stop);
    }

    private Object start(Request request) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(request.text("group"), request.credentials());
        request.configure(producer);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(3000);
        producer.start();
        Load load = new Load(producer);
        for (int thread = 0; thread < request.integer("threads", 8); thread++) {
            int number = thread;
            Thread each = new Thread(() -> load.run(request.text("name"), request.text("topic"), number, (int) request.integer("size", 2000)));
            load.threads.add(each);
            each.start();
        }
        loads.put(request.text("name"), load);
        return null;
    }

    /** Everything that was acknowledged: [body, broker, queue id, queue offset]. */
    private Object stop(Request request) throws InterruptedException {
        Load load = loads.remove(request.text("name"));
        load.stopping = true;
        for (Thread thread : load.threads) {
            thread.join();
        }
        load.producer.shutdown();
        return new ArrayList<>(load.acknowledged);
    }
}
