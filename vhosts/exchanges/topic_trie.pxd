# Compiled types of topic_trie.py.

cimport cython

from vhosts.exchanges.exchange cimport Binding
from vhosts.spread_map cimport SpreadMap

cdef Py_ssize_t _CHILDREN_MAX


cdef class Node:
    cdef public dict children
    cdef public SpreadMap many_children
    cdef public Node after_one
    cdef public Node after_any
    cdef public Node back
    cdef public SpreadMap values


cdef class TopicTrie:
    cdef Node _root
    @cython.locals(node=Node, step=str)
    cpdef void insert(self, str pattern, Binding value)
    @cython.locals(steps=list, path=list, last=Node, node=Node, index=Py_ssize_t, step=str)
    cpdef void remove(self, str pattern, Binding value)
    cpdef bint is_empty(self) except -1
    @cython.locals(child=Node)
    cdef int _step(self, Node node, str word, list reached) except -1
    cdef void _past_any(self, Node node, Py_ssize_t position, list loops, list backs, set seen)
    @cython.locals(found=Node)
    cdef Node _next(self, Node node, str step)
    @cython.locals(found=Node, new=Node)
    cdef Node _next_or_new(self, Node node, str step)
    @cython.locals(children=dict)
    cdef void _cut(self, Node node, str step)
    cdef bint _is_bare(self, Node node) except -1


cdef list _words(str key)
cdef list _steps(str pattern)
