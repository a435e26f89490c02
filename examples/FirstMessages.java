import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** One message sent and received with the Java client. */
public class FirstMessages {
    static final String NAME_SERVER = System.getenv().getOrDefault("NAMESRV_ADDR", "127.0.0.1:9876");

    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("group-p");
        producer.setNamesrvAddr(NAME_SERVER);
        producer.setSendMsgTimeout(30_000); // a JVM that has just started on a busy machine may need more than the usual 3 seconds
        producer.setMqClientApiTimeout(30_000);
        producer.start();
        System.out.println(producer.send(new Message("TopicTest", "TagA", "order-1", "hello".getBytes())));

        CountDownLatch received = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("group-c");
        consumer.setNamesrvAddr(NAME_SERVER);
        consumer.setMqClientApiTimeout(30_000);
        consumer.subscribe("TopicTest", "TagA || TagB");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> System.out.println(message.getMsgId() + " " + new String(message.getBody())));
            received.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        received.await(60, TimeUnit.SECONDS);

        consumer.shutdown();
        producer.shutdown();
    }
}
