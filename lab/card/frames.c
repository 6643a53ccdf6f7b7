// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab's cards as cards for AF_XDP without copies (Documentation/networking/af_xdp.rst): one queue, and frames that leave in several pieces.
 *
 * None of QEMU's cards takes several pieces without copies. This one does, like the drivers ice and i40e: the kernel checks each piece in
 * the same way, and reports each when it has left. Bytes that a card reads by DMA, this one copies onto its wire, from their place.
 *
 * A frame that arrives is copied into the socket's memory, which is what DMA does there, and the XDP program decides what becomes of it. What it
 * passes goes to the kernel.
 */
#include "card.h"

#if HAS_FRAMES
#include <linux/bpf_trace.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/filter.h>
#include <linux/platform_device.h>
#include <net/xdp_sock_drv.h>

static uint pieces = 8;
module_param(pieces, uint, 0444);
MODULE_PARM_DESC(pieces, "pieces of a frame that a card sends without copies at most; 1: each frame is one");

/* Frames that arrived and were not looked at yet, at most. */
#define ARRIVED_MAX 1024

/* The kernel maps memory for a piece of hardware. This one has no IOMMU and reaches all memory. */
static struct platform_device *hardware;

static void take_in(struct queue *queue, struct sk_buff *skb)
{
	struct bpf_prog *prog = READ_ONCE(queue->prog);
	struct xsk_buff_pool *pool = READ_ONCE(queue->pool);
	struct xdp_buff *xdp;
	u32 act;

	/* A card without a socket has memory of its own for frames, which no program is run on here. */
	xdp = prog && pool && skb->len <= xsk_pool_get_rx_frame_size(pool) ? xsk_buff_alloc(pool) : NULL;
	if (!xdp) {
		if (prog && pool)
			kfree_skb(skb);
		else
			dev_forward_skb(queue->dev, skb);
		return;
	}
	xsk_buff_set_size(xdp, skb->len);
	skb_copy_bits(skb, 0, xdp->data, skb->len);
	act = bpf_prog_run_xdp(prog, xdp);
	if (act == XDP_REDIRECT && !xdp_do_redirect(queue->dev, xdp, prog)) {
		consume_skb(skb);
		return;
	}
	xsk_buff_free(xdp);
	if (act == XDP_PASS)
		dev_forward_skb(queue->dev, skb);
	else
		kfree_skb(skb);
}

/* Puts a frame of this many pieces onto the wire. */
static void send_pieces(struct queue *queue, struct xsk_buff_pool *pool, const struct xdp_desc *piece, u32 count)
{
	struct sk_buff *skb;
	u32 bytes = 0, i;

	for (i = 0; i < count; i++)
		bytes += piece[i].len;
	skb = netdev_alloc_skb(queue->dev, bytes);
	if (!skb)
		return;
	for (i = 0; i < count; i++)
		skb_put_data(skb, xsk_buff_raw_get_data(pool, piece[i].addr), piece[i].len);
	count_frame(queue->dev, count);
	frame_onto_wire(queue->dev, skb);
}

static u32 send_some(struct queue *queue, struct xsk_buff_pool *pool, u32 max)
{
	u32 count = xsk_tx_peek_release_desc_batch(pool, max), from = 0, i;

	for (i = 0; i < count; i++) {
		if (!xsk_is_eop_desc(&pool->tx_descs[i]))
			continue;
		send_pieces(queue, pool, &pool->tx_descs[from], i + 1 - from);
		from = i + 1;
	}
	if (count)
		xsk_tx_completed(pool, count);
	if (xsk_uses_need_wakeup(pool))
		xsk_set_tx_need_wakeup(pool);
	return count;
}

static int poll(struct napi_struct *napi, int budget)
{
	struct queue *queue = container_of(napi, struct queue, napi);
	struct xsk_buff_pool *pool = READ_ONCE(queue->pool);
	struct sk_buff *skb;
	int done = 0;

	while (done < budget && (skb = skb_dequeue(&queue->arrived))) {
		take_in(queue, skb);
		done++;
	}
	xdp_do_flush();
	if (pool && budget && send_some(queue, pool, 256))
		return budget;
	if (done < budget && napi_complete_done(napi, done) && !skb_queue_empty(&queue->arrived))
		napi_schedule(napi);
	return done;
}

/* A frame from the wire. False if the card has no program, so that the kernel is to have it at once. */
bool frame_arrived(struct queue *queue, struct sk_buff *skb)
{
	if (!READ_ONCE(queue->prog))
		return false;
	/* A card hands over checksums as they are on the wire. */
	if (skb_queue_len(&queue->arrived) >= ARRIVED_MAX || (skb->ip_summed == CHECKSUM_PARTIAL && skb_checksum_help(skb))) {
		kfree_skb(skb);
		return true;
	}
	skb_orphan(skb);
	skb_queue_tail(&queue->arrived, skb);
	napi_schedule(&queue->napi);
	return true;
}

static int use_pool(struct queue *queue, struct xsk_buff_pool *pool)
{
	struct xsk_buff_pool *old = queue->pool;
	bool runs = netif_running(queue->dev);
	int rc = 0;

	if (runs)
		napi_disable(&queue->napi);
	if (pool)
		rc = xsk_pool_dma_map(pool, &hardware->dev, 0);
	else if (old)
		xsk_pool_dma_unmap(old, 0);
	if (!rc) {
		if (pool)
			xsk_pool_set_rxq_info(pool, &queue->rxq);
		WRITE_ONCE(queue->pool, pool);
	}
	if (runs)
		napi_enable(&queue->napi);
	return rc;
}

int frames_bpf(struct net_device *dev, struct queue *queue, struct netdev_bpf *asked)
{
	struct bpf_prog *old;

	switch (asked->command) {
	case XDP_SETUP_PROG:
		old = xchg(&queue->prog, asked->prog);
		synchronize_net();
		if (old)
			bpf_prog_put(old);
		return 0;
	case XDP_SETUP_XSK_POOL:
		return asked->xsk.queue_id ? -EINVAL : use_pool(queue, asked->xsk.pool);
	default:
		return -EINVAL;
	}
}

int frames_wakeup(struct queue *queue, u32 flags)
{
	if (!netif_running(queue->dev) || !queue->pool)
		return -ENETDOWN;
	local_bh_disable();
	napi_schedule(&queue->napi);
	local_bh_enable();
	return 0;
}

int frames_open(struct queue *queue)
{
	int rc = xdp_rxq_info_reg(&queue->rxq, queue->dev, 0, 0);

	if (rc)
		return rc;
	rc = xdp_rxq_info_reg_mem_model(&queue->rxq, MEM_TYPE_XSK_BUFF_POOL, NULL);
	if (rc)
		xdp_rxq_info_unreg(&queue->rxq);
	else
		napi_enable(&queue->napi);
	return rc;
}

void frames_stop(struct queue *queue)
{
	napi_disable(&queue->napi);
	skb_queue_purge(&queue->arrived);
	xdp_rxq_info_unreg(&queue->rxq);
}

/* Before the card is registered. */
void frames_setup(struct net_device *dev, struct queue *queue)
{
	/* NETDEV_XDP_ACT_XSK of later kernels. */
	dev->xdp_features = NETDEV_XDP_ACT_BASIC | NETDEV_XDP_ACT_REDIRECT | NETDEV_XDP_ACT_XSK_ZEROCOPY;
	dev->xdp_zc_max_segs = max(pieces, 1u);
	queue->dev = dev;
	skb_queue_head_init(&queue->arrived);
	netif_napi_add(dev, &queue->napi, poll);
}

int frames_hardware(void)
{
	int rc;

	hardware = platform_device_register_simple("fullbore_card", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(hardware))
		return PTR_ERR(hardware);
	rc = dma_coerce_mask_and_coherent(&hardware->dev, DMA_BIT_MASK(64));
	if (rc)
		platform_device_unregister(hardware);
	return rc;
}

void frames_no_hardware(void)
{
	platform_device_unregister(hardware);
}
#endif
