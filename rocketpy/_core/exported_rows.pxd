# exported_rows.pxd: copies rows of a native table for Python. A visitor copies them without the GIL; then they become objects, all of them
# or each as it is asked for.
from libc.stdint cimport int64_t, uint32_t

from rocketpy._core.base cimport rp_slice


# One exported row: two names and up to fourteen numbers, as the visitors fill it. Those of the buffer's rows are copied.
cdef struct exported_row:
    uint32_t name_sizes[2]
    int64_t numbers[14]


cdef struct export_buffer:
    char *data
    size_t size, room
    int names, numbers
    bint out_of_memory


# A copy of rows that outlives the table. An iterator of its own for each walk; none of them needs more of the interpreter at once than a
# row takes.
cdef class ExportedRows:
    cdef export_buffer buffer


cdef class RowIterator:
    cdef ExportedRows exported
    cdef size_t position
    cdef rp_slice[2] before
    cdef list texts


cdef rp_slice no_name() noexcept nogil
cdef void empty_buffer(export_buffer *buffer, int names, int numbers) noexcept
cdef int export_row(export_buffer *buffer, rp_slice first, rp_slice second, exported_row *row) noexcept nogil
cdef ExportedRows exported_rows(export_buffer *buffer)
cdef list imported_rows(export_buffer *buffer)
