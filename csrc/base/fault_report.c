/* fault_report.c: see fault_report.h. The handler uses only what is safe in a signal handler: system calls and its own stack. */
#include "fault_report.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "map_hold.h"

#define READ_BYTES 4096

enum { AT_START, AT_END, AT_PERMISSIONS, AT_OFFSET, AT_DEVICE, AT_INODE, AT_PATH }; /* parts of a line of /proc/self/maps */

typedef struct map_line {
    uint64_t start, end, offset;
    int field;
    size_t path_size;
    char path[RP_ERROR_FILE_MAX];
} map_line;

static void add_hex(uint64_t *number, char digit) { *number = *number << 4 | (uint64_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

static void take(map_line *line, char c) {
    if (line->field == AT_PATH) {
        if (line->path_size < sizeof line->path && (c != ' ' || line->path_size > 0)) {
            line->path[line->path_size++] = c;
        }
    } else if (c == ' ' || (c == '-' && line->field == AT_START)) {
        line->field++;
    } else if (line->field == AT_START || line->field == AT_END || line->field == AT_OFFSET) {
        add_hex(line->field == AT_START ? &line->start : line->field == AT_END ? &line->end : &line->offset, c);
    }
}

/* Finds the line of the mapping that holds the address. Returns 1 if there is one. */
static int find_map(uint64_t address, map_line *line) {
    char bytes[READ_BYTES];
    ssize_t count = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), found = 0;
    *line = (map_line){.field = AT_START};
    while (fd >= 0 && !found && (count = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < count && !found; i++) {
            if (bytes[i] != '\n') {
                take(line, bytes[i]);
            } else if (address >= line->start && address < line->end) {
                found = 1;
            } else {
                *line = (map_line){.field = AT_START};
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

static void say(const char *text, size_t size) {
    ssize_t written = write(STDERR_FILENO, text, size);
    (void)written; /* a failure cannot be reported */
}

static void say_text(const char *text) { say(text, strlen(text)); }

static void say_number(uint64_t number) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    say(digits + at, sizeof digits - at);
}

static void report(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code > 0) {
        rp_map_hold_faulted(info->si_addr);
    }
    signal(number, SIG_DFL);
    if (info->si_code <= 0) { /* sent by a process, so no instruction will be tried again */
        raise(number);
        return;
    }
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    map_line line;
    if (find_map(address, &line) && line.path_size > 0) {
        say_text("rocketpy: the disk does not give byte ");
        say_number(line.offset + (address - line.start));
        say_text(" of ");
        say(line.path, line.path_size);
        say_text(
            ": the file was cut short from outside, or the disk failed (dmesg tells). The process ends here (SIGBUS); put the file back or "
            "mend the disk, the next start checks the store\n");
    }
} /* the instruction is tried again, and ends the process */

int rp_fault_report_install(void) {
    struct sigaction action = {.sa_sigaction = report, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) == 0 ? RP_OK : RP_E_IO;
}
