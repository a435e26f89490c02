package rocketpy.interop;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * admin: mqadmin as an operator would type it, without a JVM start each time. The answer is all that it printed.
 *
 * Commands may run side by side, because each spends a second or two in closing its connections: what a thread and the threads it
 * starts print goes to the command that runs there. Only the name server address is common to all (mqadmin keeps it in a property).
 */
final class Admin {
    private static final int TRIES_MAX = 10;
    private static final InheritableThreadLocal<ByteArrayOutputStream> PRINTED = new InheritableThreadLocal<>();

    private static final class PerCommand extends OutputStream {
        private final OutputStream otherwise;

        PerCommand(OutputStream otherwise) {
            this.otherwise = otherwise;
        }

        @Override
        public void write(int octet) throws java.io.IOException {
            OutputStream printed = PRINTED.get();
            (printed == null ? otherwise : printed).write(octet);
        }

        @Override
        public void write(byte[] octets, int from, int count) throws java.io.IOException {
            OutputStream printed = PRINTED.get();
            (printed == null ? otherwise : printed).write(octets, from, count);
        }
    }

    /**
     * mqadmin names its client after the current millisecond: of two commands that begin in the same one the second is refused, or loses its
     * connections when the first closes them, which some commands report as nothing found. Here each command has names of its own.
     */
    private static final class ClientsPerCommand extends ConcurrentHashMap<String, MQClientInstance> {
        private static Object own(Object name) {
            Object command = PRINTED.get();
            return command == null ? name : name + "#" + System.identityHashCode(command);
        }

        @Override
        public MQClientInstance get(Object name) {
            return super.get(own(name));
        }

        @Override
        public MQClientInstance putIfAbsent(String name, MQClientInstance client) {
            return super.putIfAbsent((String) own(name), client);
        }

        @Override
        public MQClientInstance remove(Object name) {
            return super.remove(own(name));
        }
    }

    Admin() throws ReflectiveOperationException {
        Field table = MQClientManager.class.getDeclaredField("factoryTable");
        table.setAccessible(true);
        table.set(MQClientManager.getInstance(), new ClientsPerCommand());
        PrintStream both = new PrintStream(new PerCommand(System.err), true, StandardCharsets.UTF_8);
        System.setOut(both);
        System.setErr(both);
    }

    void register(Map<String, Driver.Command> commands) {
        commands.put("admin", this::run);
    }

    private Object run(Request request) {
        String[] arguments = request.list("args").stream().map(Object::toString).toArray(String[]::new);
        String printed = runOnce(arguments);
        for (int tries = 1; tries < TRIES_MAX && wasDisturbed(printed); tries++) {
            printed = runOnce(arguments);
        }
        return printed;
    }

    /** mqadmin adds its commands to a list common to all each time it begins, while another may be walking over it. */
    private static boolean wasDisturbed(String printed) {
        return printed.contains("ConcurrentModificationException") && printed.contains("findSubCommand");
    }

    private static String runOnce(String[] arguments) {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PRINTED.set(printed);
        try {
            MQAdminStartup.main0(arguments, null);
        } finally {
            PRINTED.remove();
        }
        return printed.toString(StandardCharsets.UTF_8);
    }
}
