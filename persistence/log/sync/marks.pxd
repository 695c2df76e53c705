cdef class Marks:
    cdef object _disk
    cdef object _map
    cdef str _path
    cdef str _data_dir
    cdef str _now_path
    cdef unsigned long long _size
    cdef bytes _boot_id
    cdef unsigned long _count
    cdef list _free
    cdef dict _slots
    cdef dict _heads
    cdef bint _is_full

    cpdef set(self, log)
    cpdef put(self, key, str name, unsigned long partition, unsigned long long epoch, unsigned long long end,
              unsigned long long base, unsigned long long position, unsigned long long start,
              unsigned int flags=*)
    cdef _store(self, bytes data, unsigned long slot)
