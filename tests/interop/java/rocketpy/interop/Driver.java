package rocketpy.interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * One JVM that holds many RocketMQ clients and does what a Python test says.
 *
 * A request is one line of JSON on standard input: {"id": 7, "op": "producer.send", …}. The answer is one line on standard output:
 * {"id": 7, "ok": …} or {"id": 7, "error": "class: text", "trace": "…"}. Requests run side by side, so a long poll may wait while
 * another request sends; answers come in the order they are ready. End of input stops every client and leaves.
 *
 * The same sources are compiled against each release of RocketMQ that takes part. Arguments name classes with further commands.
 */
public final class Driver {
    private final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    private final Map<String, Command> commands = new ConcurrentHashMap<>();
    private final ExecutorService workers = Executors.newCachedThreadPool();

    interface Command {
        Object run(Request request) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        new Driver().serve(arguments);
    }

    private void serve(String[] further) throws Exception {
        System.setOut(System.err);
        Hurry.start();
        new Producers().register(commands);
        new PushConsumers().register(commands);
        new PullConsumers().register(commands);
        new LiteConsumers().register(commands);
        new Replies().register(commands);
        new Transactions().register(commands);
        new Filters().register(commands);
        new Loads().register(commands);
        new Admin().register(commands);
        for (String each : further) {
            Class.forName(each).getMethod("register", Map.class).invoke(null, commands);
        }
        commands.put("ping", request -> System.getProperty("java.version"));

        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Request request = Request.parse(line);
            workers.execute(() -> answer(request));
        }
        Runtime.getRuntime().halt(0);
    }

    private static boolean endsAClient(Request request) {
        return request.text("op").equals("admin") || request.text("op").endsWith(".shutdown");
    }

    private void answer(Request request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", request.integer("id", 0));
        try {
            Command command = commands.get(request.text("op"));
            if (command == null) {
                throw new IllegalArgumentException("no such op: " + request.text("op"));
            }
            answer.put("ok", endsAClient(request) ? Hurry.through(() -> command.run(request)) : command.run(request));
        } catch (Throwable thrown) {
            StringWriter trace = new StringWriter();
            thrown.printStackTrace(new PrintWriter(trace));
            answer.put("error", thrown.toString());
            answer.put("trace", trace.toString());
        }
        String line = Request.json(answer);
        synchronized (answers) {
            answers.println(line);
        }
    }
}
