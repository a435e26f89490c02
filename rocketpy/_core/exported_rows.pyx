# exported_rows.pyx: see exported_rows.pxd.

from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from rocketpy._core.base cimport text_of_slice, uint8_t
from rocketpy._core.errors import NoMemory


cdef rp_slice no_name() noexcept nogil:
    """Returns an empty name, for a row with fewer than two."""
    cdef rp_slice name
    name.data = NULL
    name.size = 0
    return name


cdef void empty_buffer(export_buffer *buffer, int names, int numbers) noexcept:
    """Prepares a buffer for rows of so many names and numbers."""
    memset(buffer, 0, sizeof(export_buffer))
    buffer.names = names
    buffer.numbers = numbers


cdef size_t row_size(int numbers) noexcept nogil:
    return sizeof(uint32_t) * 2 + sizeof(int64_t) * numbers


cdef int export_row(export_buffer *buffer, rp_slice first, rp_slice second, exported_row *row) noexcept nogil:
    """Appends a row with its two names. Returns 0; 1: out of memory, which ends the visit."""
    cdef size_t own = row_size(buffer.numbers)
    cdef size_t needed = own + first.size + second.size
    cdef size_t room = buffer.room
    cdef char *larger
    if buffer.size + needed > room:
        room = (buffer.size + needed) * 2
        larger = <char *>realloc(buffer.data, room)
        if larger == NULL:
            buffer.out_of_memory = True
            return 1
        buffer.data = larger
        buffer.room = room
    row.name_sizes[0] = first.size
    row.name_sizes[1] = second.size
    memcpy(buffer.data + buffer.size, row, own)
    buffer.size += own
    if first.size > 0:
        memcpy(buffer.data + buffer.size, first.data, first.size)
    buffer.size += first.size
    if second.size > 0:
        memcpy(buffer.data + buffer.size, second.data, second.size)
    buffer.size += second.size
    return 0


cdef class ExportedRows:
    def __dealloc__(self):
        free(self.buffer.data)

    def __iter__(self):
        cdef RowIterator rows = RowIterator()
        rows.exported = self
        return rows


cdef class RowIterator:
    def __iter__(self):
        return self

    def __next__(self):
        cdef exported_row row
        cdef rp_slice name
        cdef const char *data = self.exported.buffer.data
        cdef int i
        if self.position >= self.exported.buffer.size:
            raise StopIteration
        cdef size_t own = row_size(self.exported.buffer.numbers)
        memcpy(&row, data + self.position, own)
        self.position += own
        cdef list values = []
        for i in range(2):
            name.data = <const uint8_t *>data + self.position
            name.size = row.name_sizes[i]
            self.position += name.size
            if i < self.exported.buffer.names:
                if self.texts[i] is None or name.size != self.before[i].size or memcmp(name.data, self.before[i].data, name.size) != 0:
                    self.texts[i] = text_of_slice(name)
                    self.before[i] = name
                values.append(self.texts[i])
        for i in range(self.exported.buffer.numbers):
            values.append(row.numbers[i])
        return tuple(values)

    def __cinit__(self):
        self.texts = [None, None]


cdef ExportedRows exported_rows(export_buffer *buffer):
    """Returns the buffer, which is no longer the caller's, as rows (names…, numbers…). Each becomes a tuple when it is asked for;
    consecutive ones with the same pair of names share its texts."""
    cdef ExportedRows rows
    try:
        rows = ExportedRows()
    except MemoryError:
        free(buffer.data)
        raise
    rows.buffer = buffer[0]
    if buffer.out_of_memory:
        raise NoMemory("no memory to export the table")
    return rows


cdef list imported_rows(export_buffer *buffer):
    """As exported_rows, all of them as tuples."""
    return list(exported_rows(buffer))
