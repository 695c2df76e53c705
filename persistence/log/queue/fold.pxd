cimport cython

from persistence.log.format.settles cimport SettleState


@cython.locals(settles=SettleState, first=cython.ulonglong, end=cython.ulonglong, run_first=cython.ulonglong,
               run_end=cython.ulonglong, at=cython.ulonglong)
cpdef fold(object state, object header, bytes payload)
@cython.locals(end=cython.ulonglong, offset=cython.ulonglong)
cdef _fold_messages(SettleState settles, object header, bytes payload, unsigned long long first)
