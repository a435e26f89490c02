/* backlog_pipe.h: moves a backlog from a slave's socket into its log through a pipe. Private to csrc/ha.
 *
 *   master's page cache ─ sendfile ─► socket ─ splice ─► pipe ─ splice ─► slave's page cache
 *
 * Why      the kernel copies the buffers of the loopback or the network card once, into pages that nobody had to zero or map first. The
 *          receiver spends 0.8 s of CPU on each GB, as much as on reading and discarding it; receiving into a mapped file costs 1.3 to
 *          1.6 s (docs/performance.md).
 * Threads  one owner. Owns the pipe, which is created at its first use.
 */
#ifndef RP_HA_BACKLOG_PIPE_H
#define RP_HA_BACKLOG_PIPE_H

#include <stdint.h>
#include <sys/types.h>

typedef struct rp_backlog_pipe {
    int fds[2]; /* read end, write end; both -1: no pipe */
} rp_backlog_pipe;

void rp_backlog_pipe_init(rp_backlog_pipe *backlog);
/* 0; -1 if there is no descriptor for it: then the bytes must be received another way. */
int rp_backlog_pipe_open(rp_backlog_pipe *backlog);
/* Moves up to size bytes from the non-blocking socket into the empty pipe. As recv: 0 at the end of the stream, -1 with errno. */
ssize_t rp_backlog_pipe_fill(const rp_backlog_pipe *backlog, int socket, uint32_t size);
/* Closes the pipe with whatever it holds. */
void rp_backlog_pipe_close(rp_backlog_pipe *backlog);

#endif
