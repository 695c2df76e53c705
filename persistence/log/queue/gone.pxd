from persistence.log.format.segment cimport Segment
from persistence.log.format.settles cimport SettleState


cdef class Settled:
    cpdef bint all_gone(self, SettleState state) except -1
    cpdef long long count_kept(self, SettleState state, unsigned long long first, unsigned long long end) except -1
    cpdef bint is_gone(self, Segment segment) except -1
    cpdef bint is_sparse(self, Segment segment, double ratio) except -1
    cpdef bint keeps_any(self, SettleState state, header) except -1
    cpdef rest_of(self, SettleState state, header, bytes payload, unsigned long long base)
