/* The cost of moving processes into control groups. */
#pragma once

/* Called when a runtime is about to be started, which will move a process into the container's group. The
 * kernel makes the first such move wait for an RCU grace period, some 10 ms, and spares those that come soon
 * after it. Some other thread makes a move that changes nothing, so that the grace period passes while the
 * runtime is still loading. Returns at once; where it cannot be done, nothing is lost. */
void cgroup_move_expected(void);
