# exported_rows.pxd: copies rows of a native table for Python. A visitor copies them without the GIL; then they become objects.
from libc.stdint cimport int64_t, uint32_t

from rocketpy._core.base cimport rp_slice


# One exported row: two names and up to fourteen numbers, as the visitors copy them.
cdef struct exported_row:
    uint32_t name_sizes[2]
    int64_t numbers[14]


cdef struct export_buffer:
    char *data
    size_t size, room
    bint out_of_memory


cdef rp_slice no_name() noexcept nogil
cdef int export_row(export_buffer *buffer, rp_slice first, rp_slice second, exported_row *row) noexcept nogil
cdef list imported_rows(export_buffer *buffer, int names, int numbers)
