import com.alibaba.rocketmq.client.consumer.DefaultMQPushConsumer;
import com.alibaba.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import com.alibaba.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import com.alibaba.rocketmq.client.producer.DefaultMQProducer;
import com.alibaba.rocketmq.client.producer.SendResult;
import com.alibaba.rocketmq.common.consumer.ConsumeFromWhere;
import com.alibaba.rocketmq.common.message.Message;
import com.alibaba.rocketmq.common.message.MessageExt;
import java.util.Map;
import java.util.TreeMap;

/** NAMESRV TOPIC GROUP: sends, is sent again what it refused, asks by key and by id; prints what it saw as JSON. */
public class OldJudge {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        long began = System.currentTimeMillis() - 60_000;
        DefaultMQProducer producer = new DefaultMQProducer("old-producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(30_000);
        producer.setCompressMsgBodyOverHowmuch(1000);
        producer.start();

        Map<String, Integer> received = new TreeMap<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "TagA || TagB");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            String body = new String(message.getBody());
            synchronized (received) {
                received.merge(body.length() > 100 ? "long " + body.length() : body, 1, Integer::sum);
            }
            context.setDelayLevelWhenNextConsume(1);
            boolean refuse = body.equals("refused") && message.getReconsumeTimes() == 0;
            return refuse ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();

        for (String tag : new String[] {"TagA", "TagB", "TagC"}) {
            producer.send(new Message(topic, tag, "of-" + tag, ("sent " + tag).getBytes()));
            producer.sendOneway(new Message(topic, tag, "key", ("oneway " + tag).getBytes()));
        }
        producer.send(new Message(topic, "TagA", "key", new byte[5000]));
        SendResult last = producer.send(new Message(topic, "TagA", topic + "-last", "refused".getBytes()));
        for (long end = System.currentTimeMillis() + 60_000; System.currentTimeMillis() < end; Thread.sleep(50)) {
            synchronized (received) {
                if (received.size() == 6 && received.getOrDefault("refused", 0) == 2) {
                    break;
                }
            }
        }
        String byId = new String(producer.viewMessage(last.getMsgId()).getBody());
        int byKey = producer.queryMessage(topic, "of-TagB", 32, began, System.currentTimeMillis() + 60_000).getMessageList().size();
        StringBuilder counts = new StringBuilder();
        received.forEach((body, count) -> counts.append(counts.length() == 0 ? "" : ", ").append("\"" + body + "\": " + count));
        System.out.println("{\"received\": {" + counts + "}, \"byId\": \"" + byId + "\", \"byKey\": " + byKey + "}");
        System.exit(0);
    }
}
