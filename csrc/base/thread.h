/* thread.h: a named native thread that leaves all signals to Python's main thread.
 *
 * Threads  start and join from the owner. Owns: nothing but the thread; context is borrowed until join returns.
 */
#ifndef RP_BASE_THREAD_H
#define RP_BASE_THREAD_H

#define RP_THREAD_NAME_MAX 16 /* the kernel's limit, with the final zero; longer names are cut */

typedef struct rp_thread rp_thread;

/* Runs run(context) on a new thread with every signal blocked but SIGBUS, which is that thread's own. RP_OK; RP_E_NO_MEMORY; RP_E_BUSY
 * when the system has no thread left. */
int rp_thread_start(rp_thread **thread, const char *name, void (*run)(void *context), void *context);
/* The same for a thread that nobody joins, and that is none of the process' business at its end: context is its own. */
int rp_thread_start_alone(const char *name, void (*run)(void *context), void *context);
/* Why a start failed and what helps; static storage. A limit of addresses (ulimit -v) counts every thread's stack. */
const char *rp_thread_refusal(int status);
/* Waits until run has returned, and frees thread. NULL is allowed. */
void rp_thread_join(rp_thread *thread);

/* The calling thread works ahead or behind: from now on it runs at a lower priority than those that answer clients, and gets a tenth of a
 * contended core. For latency only: nothing may wait for it that a client waits for. */
void rp_thread_lower_priority(void);

#endif
