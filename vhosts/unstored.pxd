from vhosts.publishing.ports cimport Run


cdef class Unstored:
    cdef public unsigned long long rev
    cdef unsigned long long _stored
    cdef unsigned long long _all
    cdef dict _exchanges
    cdef dict _queues
    cdef dict _waiting
    cdef bint _is_failing
    cpdef bint hold(self, Run run, unsigned long long rev) except -1
