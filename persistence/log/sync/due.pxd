from persistence.log.sync.ports cimport Rounds


cdef class Due:
    cdef public bint messages
    cdef public bint settles
    cdef public Rounds sync
