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


cdef int export_row(export_buffer *buffer, rp_slice first, rp_slice second, exported_row *row) noexcept nogil:
    """Appends a row with its two names. Returns 0; 1: out of memory, which ends the visit."""
    cdef size_t needed = sizeof(exported_row) + first.size + second.size
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
    memcpy(buffer.data + buffer.size, row, sizeof(exported_row))
    buffer.size += sizeof(exported_row)
    if first.size > 0:
        memcpy(buffer.data + buffer.size, first.data, first.size)
    buffer.size += first.size
    if second.size > 0:
        memcpy(buffer.data + buffer.size, second.data, second.size)
    buffer.size += second.size
    return 0


cdef list imported_rows(export_buffer *buffer, int names, int numbers):
    """Returns the buffer as tuples (names…, numbers…), and frees it. Consecutive rows with the same pair of names share its texts."""
    cdef list rows = []
    cdef exported_row row
    cdef rp_slice name
    cdef rp_slice[2] before
    cdef list texts = [None, None]
    cdef size_t position = 0
    cdef int i
    memset(before, 0, sizeof(before))
    try:
        if buffer.out_of_memory:
            raise NoMemory("no memory to export the table")
        while position < buffer.size:
            memcpy(&row, buffer.data + position, sizeof(exported_row))
            position += sizeof(exported_row)
            values = []
            for i in range(2):
                name.data = <const uint8_t *>buffer.data + position
                name.size = row.name_sizes[i]
                position += name.size
                if i < names:
                    if texts[i] is None or name.size != before[i].size or memcmp(name.data, before[i].data, name.size) != 0:
                        texts[i] = text_of_slice(name)
                        before[i] = name
                    values.append(texts[i])
            for i in range(numbers):
                values.append(row.numbers[i])
            rows.append(tuple(values))
    finally:
        free(buffer.data)
    return rows
