import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/** A push consumer of a light queue, which is told where that is: no name server knows. Arguments: parent topic, light queue, how many. */
class LightQueues {
    public static void main(String[] arguments) throws Exception {
        String parent = arguments[0], light = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        BlockingQueue<String> received = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("GID-light");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(light, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                received.add(each.getTopic() + " " + each.getQueueOffset() + " " + new String(each.getBody()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        lead(consumer, parent, light);
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.start();
        for (int number = 0; number < count; number++) {
            Message message = new Message(parent, ("body" + number).getBytes());
            message.putUserProperty("INNER_MULTI_DISPATCH", light + ",%LMQ%other");
            producer.send(message);
        }
        for (int number = 0; number < count; number++) {
            System.out.println(received.poll(30, TimeUnit.SECONDS));
        }
        producer.shutdown();
        consumer.shutdown();
    }

    private static void lead(DefaultMQPushConsumer consumer, String parent, String light) throws Exception {
        MQClientInstance client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        for (int tries = 0; tries < 10 && !client.getTopicRouteTable().containsKey(parent); tries++) {
            client.updateTopicRouteInfoFromNameServer(parent);
        }
        BrokerData broker = client.getTopicRouteTable().get(parent).getBrokerDatas().get(0);
        TopicRouteData route = new TopicRouteData();
        route.setBrokerDatas(List.of(new BrokerData(broker.getCluster(), broker.getBrokerName(), broker.getBrokerAddrs())));
        client.getTopicRouteTable().put(light, route);
        consumer.getDefaultMQPushConsumerImpl().updateTopicSubscribeInfo(light, Set.of(new MessageQueue(light, broker.getBrokerName(), 0)));
        client.doRebalance();
    }
}
