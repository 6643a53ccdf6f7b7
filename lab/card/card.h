/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the lab's card know of each other: card.c is the card and its wire, frames.c its queue for AF_XDP. */
#include <linux/netdevice.h>
#include <linux/version.h>
#include <net/xdp.h>

/* Frames in several pieces came with 6.6; frames.c is for the lab's newest kernel. */
#define HAS_FRAMES (IS_ENABLED(CONFIG_XDP_SOCKETS) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0))

struct queue {
	struct net_device *dev;
	struct napi_struct napi;
	struct xdp_rxq_info rxq;
	struct bpf_prog *prog;
	struct xsk_buff_pool *pool;
	struct sk_buff_head arrived;
};

/* card.c */
void frame_onto_wire(struct net_device *dev, struct sk_buff *skb);
void count_frame(struct net_device *dev, u32 pieces);

/* frames.c */
bool frame_arrived(struct queue *queue, struct sk_buff *skb);
int frames_bpf(struct net_device *dev, struct queue *queue, struct netdev_bpf *asked);
int frames_wakeup(struct queue *queue, u32 flags);
int frames_open(struct queue *queue);
void frames_stop(struct queue *queue);
void frames_setup(struct net_device *dev, struct queue *queue);
int frames_hardware(void);
void frames_no_hardware(void);
