/* thread.c: pthread_create with a name and a blocked signal mask.
 *
 * The mask is set around pthread_create, so that the thread starts with it and no signal can reach it in between.
 */
#include "thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "error.h"

#define BACKGROUND_NICE 10
#define NICE_MAX 19

struct rp_thread {
    pthread_t handle;              /* owner */
    void (*run)(void *context);    /* fixed after start */
    void *context;                 /* fixed after start */
    char name[RP_THREAD_NAME_MAX]; /* fixed after start */
};

static void *thread_main(void *argument) {
    rp_thread *thread = argument;
    pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread->context);
    return NULL;
}

static void *alone_main(void *argument) {
    rp_thread thread = *(rp_thread *)argument;
    free(argument);
    pthread_detach(pthread_self());
    return thread_main(&thread);
}

static int start(rp_thread **thread_out, const char *name, void *(*begin)(void *), void (*run)(void *context), void *context) {
    rp_thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL) {
        return RP_E_NO_MEMORY;
    }
    thread->run = run;
    thread->context = context;
    snprintf(thread->name, sizeof thread->name, "%s", name);
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* raised by mapped files: blocked, it would end the process without a report (fault_report.h) */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t handle;
    int failed = pthread_create(&handle, NULL, begin, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        free(thread);
        return RP_E_BUSY;
    }
    if (thread_out != NULL) { /* otherwise the thread may have freed it already */
        thread->handle = handle;
        *thread_out = thread;
    }
    return RP_OK;
}

int rp_thread_start(rp_thread **thread_out, const char *name, void (*run)(void *context), void *context) {
    return start(thread_out, name, thread_main, run, context);
}

int rp_thread_start_alone(const char *name, void (*run)(void *context), void *context) {
    return start(NULL, name, alone_main, run, context);
}

const char *rp_thread_refusal(int status) {
    return status == RP_E_BUSY ? "the system gives no more threads; raise its limit (ulimit -u and -v, TasksMax, pids.max, "
                                 "and of maps vm.max_map_count)"
                               : rp_status_text(status);
}

void rp_thread_join(rp_thread *thread) {
    if (thread != NULL) {
        pthread_join(thread->handle, NULL);
        free(thread);
    }
}

void rp_thread_lower_priority(void) {
    /* On Linux a nice value belongs to a thread. The call fails only where it is forbidden, which costs latency and nothing else. */
    int nice = getpriority(PRIO_PROCESS, 0) + BACKGROUND_NICE;
    (void)setpriority(PRIO_PROCESS, 0, nice > NICE_MAX ? NICE_MAX : nice);
}
