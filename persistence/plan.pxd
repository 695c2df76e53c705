cdef class Target:
    cpdef file(self)
    cpdef wrote(self, unsigned long long end)
    cpdef synced(self)


cdef class Write:
    cdef public Target target
    cdef public unsigned long long position
    cdef public list pieces
    cdef public unsigned long long end

    cpdef carry_out(self)


cdef class Plan:
    cdef public list writes
    cdef public unsigned long done
    cdef public BaseException error

    cpdef carried_out(self)
