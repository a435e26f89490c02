# escaping_messages.pyx: messages that an acting slave hands over, to be sent to another master (csrc/broker/escaping_messages.h).

from libc.stdlib cimport free

from rocketpy._core.base cimport check
from rocketpy._core.errors import NotFound


cdef class EscapingMessages(TimedMessages):
    def open_escape(self):
        self.enter()
        with nogil:
            rp_broker_open_escape(self.native)
        self.leave()

    def refuse_escape(self):
        self.enter()
        with nogil:
            rp_broker_refuse_escape(self.native)
        self.leave()

    def shut_escape(self):
        self.enter()
        with nogil:
            rp_broker_shut_escape(self.native)
        self.leave()

    @property
    def escape_fd(self):
        self.enter()
        cdef int fd = rp_broker_escape_fd(self.native)
        self.leave()
        return fd

    def take_escaping(self):
        cdef rp_escaping_message message
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_take_escaping(self.native, &message)
        self.leave()
        if status == NotFound.status:
            return None
        check(status, NULL)
        try:
            return message.id, <bytes>(<char *>message.record)[:message.size]
        finally:
            free(message.record)

    def settle_escaping(self, uint64_t id, int status):
        self.enter()
        with nogil:
            rp_broker_settle_escaping(self.native, id, status)
        self.leave()
