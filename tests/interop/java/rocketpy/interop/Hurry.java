package rocketpy.interop;

import java.lang.reflect.Field;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Shortens the end of a RocketMQ 5.x client, and with it every mqadmin command. Its shutdown joins an event thread that looks at its
 * stop flag only every three seconds; here such a thread is woken by an interrupt as soon as its flag is set. Nothing else changes.
 * Where the JDK does not show a thread's task (19 and later) shutdowns simply take their three seconds.
 */
final class Hurry {
    private static final AtomicInteger ENDING = new AtomicInteger();

    interface Work {
        Object run() throws Exception;
    }

    private Hurry() {
    }

    /** Runs something that shuts a client down. */
    static Object through(Work work) throws Exception {
        synchronized (ENDING) {
            ENDING.incrementAndGet();
            ENDING.notifyAll();
        }
        try {
            return work.run();
        } finally {
            ENDING.decrementAndGet();
        }
    }

    static void start() {
        Field task;
        try {
            task = Thread.class.getDeclaredField("target");
            task.setAccessible(true);
        } catch (ReflectiveOperationException | RuntimeException hidden) {
            return;
        }
        Thread waker = new Thread(() -> wakeStoppedThreads(task), "hurry");
        waker.setDaemon(true);
        waker.start();
    }

    private static void wakeStoppedThreads(Field task) {
        try {
            while (true) {
                synchronized (ENDING) {
                    while (ENDING.get() == 0) {
                        ENDING.wait();
                    }
                }
                Thread[] threads = new Thread[Thread.activeCount() + 64];
                int count = Thread.enumerate(threads);
                for (int index = 0; index < count; index++) {
                    if (threads[index].getName().startsWith("NettyEventExecutor") && isStopped(task.get(threads[index]))) {
                        threads[index].interrupt();
                    }
                }
                Thread.sleep(20);
            }
        } catch (InterruptedException | ReflectiveOperationException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static boolean isStopped(Object service) {
        return service instanceof org.apache.rocketmq.common.ServiceThread && ((org.apache.rocketmq.common.ServiceThread) service).isStopped();
    }
}
