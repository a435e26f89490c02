package rocketpy.interop;

import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages, queues and send results as plain maps. */
final class Messages {
    private Messages() {
    }

    static Message fromRequest(String topic, Request fields) {
        Message message = new Message(topic, fields.bytes("body"));
        if (fields.has("tags")) {
            message.setTags(fields.text("tags"));
        }
        if (fields.has("keys")) {
            message.setKeys(fields.text("keys"));
        }
        if (fields.has("flag")) {
            message.setFlag((int) fields.integer("flag", 0));
        }
        if (fields.has("delayLevel")) {
            message.setDelayTimeLevel((int) fields.integer("delayLevel", 0));
        }
        for (String each : List.of("delayTimeSec", "delayTimeMs", "deliverTimeMs")) {
            if (fields.has(each)) {
                Request.invoke(message, "set" + each.substring(0, 1).toUpperCase() + each.substring(1), fields.integer(each, 0));
            }
        }
        if (fields.has("wait")) {
            message.setWaitStoreMsgOK(fields.truth("wait"));
        }
        fields.object("properties").forEach((name, value) -> message.putUserProperty(name, value.toString()));
        return message;
    }

    static Map<String, Object> toMap(MessageExt message) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("topic", message.getTopic());
        map.put("broker", message.getBrokerName());
        map.put("queueId", message.getQueueId());
        map.put("queueOffset", message.getQueueOffset());
        map.put("commitLogOffset", message.getCommitLogOffset());
        map.put("msgId", message.getMsgId());
        map.put("offsetMsgId", message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null);
        map.put("tags", message.getTags());
        map.put("keys", message.getKeys());
        map.put("flag", message.getFlag());
        map.put("sysFlag", message.getSysFlag());
        map.put("storeSize", message.getStoreSize());
        map.put("bodyCrc", message.getBodyCRC());
        map.put("reconsumeTimes", message.getReconsumeTimes());
        map.put("bornTimestamp", message.getBornTimestamp());
        map.put("storeTimestamp", message.getStoreTimestamp());
        map.put("bornHost", String.valueOf(message.getBornHost()));
        map.put("storeHost", String.valueOf(message.getStoreHost()));
        map.put("properties", new TreeMap<>(message.getProperties()));
        map.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        return map;
    }

    static List<Object> toList(Collection<MessageExt> messages) {
        return messages == null ? List.of() : messages.stream().map(Messages::toMap).collect(Collectors.toList());
    }

    static Map<String, Object> toMap(MessageQueue queue) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("topic", queue.getTopic());
        map.put("broker", queue.getBrokerName());
        map.put("queueId", queue.getQueueId());
        return map;
    }

    static List<Object> queues(Collection<MessageQueue> queues) {
        return queues.stream().sorted().map(Messages::toMap).collect(Collectors.toList());
    }

    static Map<String, Object> toMap(SendResult result) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("status", result.getSendStatus().name());
        map.put("msgId", result.getMsgId());
        map.put("offsetMsgId", result.getOffsetMsgId());
        map.put("queueOffset", result.getQueueOffset());
        map.put("region", result.getRegionId());
        map.put("traceOn", result.isTraceOn());
        map.put("transactionId", result.getTransactionId());
        map.put("recallHandle", Request.has(result, "getRecallHandle") ? Request.invoke(result, "getRecallHandle") : null);
        map.putAll(toMap(result.getMessageQueue()));
        return map;
    }
}
