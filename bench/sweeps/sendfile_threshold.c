/* sendfile_threshold.c: finds the size from which on a file range should be sent by sendfile instead of by sendmsg from the mapping.
 *
 * Sends a 300-byte header and a range of a cached, mapped file over loopback, in both ways, and prints the sender's CPU time for
 * each response. SENDFILE_BYTES_MIN of csrc/remoting/output.c is where the second column is clearly below the first.
 *
 *   cc -O2 -D_GNU_SOURCE -pthread bench/sweeps/sendfile_threshold.c -o /tmp/sweep && /tmp/sweep FILE   (created, 256 MB, removed)
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES ((size_t)256 << 20)
#define ROUND_BYTES ((size_t)512 << 20)
#define HEADER_BYTES 300

static void require(int claim, const char *what) {
    if (!claim) {
        perror(what);
        exit(1);
    }
}

static double thread_cpu_us(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static void *discard(void *context) {
    char *buffer = malloc(1 << 18);
    require(buffer != NULL, "malloc");
    while (recv(*(int *)context, buffer, 1 << 18, 0) > 0) {
    }
    free(buffer);
    return NULL;
}

static void send_mapped(int fd, const uint8_t *range, size_t size) {
    static uint8_t header[HEADER_BYTES];
    size_t sent = 0;
    while (sent < HEADER_BYTES + size) {
        size_t of_range = sent > HEADER_BYTES ? sent - HEADER_BYTES : 0;
        size_t of_header = sent - of_range;
        struct iovec parts[2] = {{header + of_header, HEADER_BYTES - of_header}, {(void *)(uintptr_t)(range + of_range), size - of_range}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t count = sendmsg(fd, &message, MSG_NOSIGNAL);
        require(count > 0, "sendmsg");
        sent += (size_t)count;
    }
}

static void send_file(int fd, int file_fd, off_t offset, size_t size) {
    static uint8_t header[HEADER_BYTES];
    require(send(fd, header, HEADER_BYTES, MSG_NOSIGNAL | MSG_MORE) == HEADER_BYTES, "send");
    while (size > 0) {
        ssize_t count = sendfile(fd, file_fd, &offset, size);
        require(count > 0, "sendfile");
        size -= (size_t)count;
    }
}

static double measure(int listener, int file_fd, const uint8_t *mapped, size_t size, int by_sendfile) {
    struct sockaddr_in address;
    socklen_t address_size = sizeof address;
    int one = 1, source = socket(AF_INET, SOCK_STREAM, 0);
    getsockname(listener, (struct sockaddr *)&address, &address_size);
    require(connect(source, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    setsockopt(source, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int target = accept(listener, NULL, NULL);
    pthread_t reader;
    require(target >= 0 && pthread_create(&reader, NULL, discard, &target) == 0, "accept");
    size_t rounds = ROUND_BYTES / size, offset = 0;
    double begin = thread_cpu_us();
    for (size_t round = 0; round < rounds; round++, offset += size) {
        offset = offset + size > FILE_BYTES ? 0 : offset;
        if (by_sendfile) {
            send_file(source, file_fd, (off_t)offset, size);
        } else {
            send_mapped(source, mapped + offset, size);
        }
    }
    double used = thread_cpu_us() - begin;
    close(source);
    pthread_join(reader, NULL);
    close(target);
    return used / (double)rounds;
}

int main(int argument_count, char **arguments) {
    require(argument_count == 2, "usage: sendfile_threshold FILE");
    int file_fd = open(arguments[1], O_RDWR | O_CREAT | O_EXCL, 0600);
    require(file_fd >= 0 && ftruncate(file_fd, (off_t)FILE_BYTES) == 0, arguments[1]);
    uint8_t *mapped = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file_fd, 0);
    require(mapped != MAP_FAILED, "mmap");
    memset(mapped, 7, FILE_BYTES);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    require(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0, "listen");
    printf("%10s %14s %14s   sender's CPU, microseconds a response\n", "bytes", "sendmsg", "sendfile");
    for (size_t size = 4096; size <= 1 << 20; size *= 2) {
        printf("%10zu %14.2f %14.2f\n", size, measure(listener, file_fd, mapped, size, 0), measure(listener, file_fd, mapped, size, 1));
    }
    unlink(arguments[1]);
    return 0;
}
