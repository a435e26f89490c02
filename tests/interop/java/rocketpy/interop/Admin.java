package rocketpy.interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** admin: mqadmin as an operator would type it, without a JVM start each time. The answer is all that it printed. */
final class Admin {
    void register(Map<String, Driver.Command> commands) {
        commands.put("admin", this::run);
    }

    private synchronized Object run(Request request) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(both);
        System.setErr(both);
        try {
            MQAdminStartup.main0(request.list("args").stream().map(Object::toString).toArray(String[]::new), null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }
}
