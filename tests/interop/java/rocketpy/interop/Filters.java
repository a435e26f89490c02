package rocketpy.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;

/** What RocketMQ's own SQL92 filter says of expressions and properties, without a broker. */
final class Filters {
    void register(Map<String, Driver.Command> commands) {
        commands.put("filter", this::filter);
    }

    /** For each of "cases" [expression, [properties, …]]: null when it is no expression, else whether each passes. */
    private Object filter(Request request) {
        List<Object> verdicts = new ArrayList<>();
        for (Object each : request.list("cases")) {
            List<?> pair = (List<?>) each;
            verdicts.add(judge(pair.get(0).toString(), (List<?>) pair.get(1)));
        }
        return verdicts;
    }

    private static List<Boolean> judge(String text, List<?> messages) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get(ExpressionType.SQL92).compile(text);
        } catch (Throwable refused) {
            return null;
        }
        List<Boolean> passes = new ArrayList<>();
        for (Object properties : messages) {
            passes.add(passes(expression, properties));
        }
        return passes;
    }

    /** As ExpressionMessageFilter has it: what throws does not pass. */
    @SuppressWarnings("unchecked")
    private static boolean passes(Expression expression, Object properties) {
        try {
            return Boolean.TRUE.equals(expression.evaluate(new MessageEvaluationContext((Map<String, String>) properties)));
        } catch (Throwable thrown) {
            return false;
        }
    }
}
