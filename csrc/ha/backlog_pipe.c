/* backlog_pipe.c: see backlog_pipe.h. */
#include "backlog_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#define PIPE_BYTES (1024 * 1024) /* the default of fs.pipe-max-size */

void rp_backlog_pipe_init(rp_backlog_pipe *backlog) { backlog->fds[0] = backlog->fds[1] = -1; }

int rp_backlog_pipe_open(rp_backlog_pipe *backlog) {
    if (backlog->fds[0] >= 0)
        return 0;
    if (pipe2(backlog->fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        rp_backlog_pipe_init(backlog);
        return -1;
    }
    (void)fcntl(backlog->fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* only affects speed */
    return 0;
}

ssize_t rp_backlog_pipe_fill(const rp_backlog_pipe *backlog, int socket, uint32_t size) {
    return splice(socket, NULL, backlog->fds[1], NULL, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

void rp_backlog_pipe_close(rp_backlog_pipe *backlog) {
    if (backlog->fds[0] >= 0) {
        close(backlog->fds[0]);
        close(backlog->fds[1]);
    }
    rp_backlog_pipe_init(backlog);
}
