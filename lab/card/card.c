// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network cards for the lab that encrypt TLS as they send (tls-hw-tx-offload), in software: for guests, which have no such card. On newer
 * kernels they also take AF_XDP's frames without copies (frames.c).
 *
 * Cards come in pairs. What card0 sends, card1 receives, and the other way round; card2 and card3 are the next pair.
 *
 * A card knows the same about a connection as real ones: its keys, the TCP sequence number that it expects next, and the record's number there.
 * It encrypts packets in order from that alone. Packets out of order (a retransmission, or packets after a queue has dropped
 * something) it can't encrypt: the driver makes the kernel do it from its list of unacknowledged records (tls_encrypt_skb), and after a gap it
 * asks for a new point to begin at, as the drivers funeth and nfp do. A real card then reads the record again from its beginning; the bytes
 * that it would read are counted (tx_tls_dump_bytes).
 *
 * Counters have the names of the driver mlx5 where it has such a counter, and begin with lab_ where it has none. Parameters are in
 * /sys/module/fullbore_card/parameters.
 *
 * Invariants:
 * - It encrypts a copy: the pages of a packet may be the page cache's, where sendfile copies nothing.
 * - Packets on the wire no longer have a socket or a mark. Otherwise a device that forwards them (a bridge) would encrypt them a second time.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <linux/version.h>
#include <crypto/aead.h>
#include <net/tcp.h>
#include <net/tls.h>
#include "card.h"
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#include <net/gso.h>
#endif

static uint pairs = 1;
module_param(pairs, uint, 0444);
MODULE_PARM_DESC(pairs, "pairs of cards");
static uint refuse;
module_param(refuse, uint, 0644);
MODULE_PARM_DESC(refuse, "refuse the keys of the next so many connections");
static uint room = UINT_MAX;
module_param(room, uint, 0644);
MODULE_PARM_DESC(room, "how many connections a card has room for");
static uint lose;
module_param(lose, uint, 0644);
MODULE_PARM_DESC(lose, "lose one in so many segments on the wire, at random; 0 loses none");

enum {
	CTX, DEL, PACKETS, BYTES, OOO, DUMP_BYTES, RESYNC_BYTES, NO_SYNC,
	REFUSED, AHEAD, RESYNC, LOST, FRAMES, PIECES, STATS
};

static const char stat_names[STATS][ETH_GSTRING_LEN] = {
	/* connections added and removed */
	"tx_tls_ctx", "tx_tls_del",
	/* sealed in order, by the card */
	"tx_tls_encrypted_packets", "tx_tls_encrypted_bytes",
	/* packets out of order; bytes before them that a card would read again; their own bytes; packets that could not be encrypted at all: a packet sent
	   again whose record was acknowledged meanwhile is dropped (tls_sw_fallback), and it is not needed */
	"tx_tls_ooo", "tx_tls_dump_bytes", "tx_tls_resync_bytes", "tx_tls_drop_no_sync_data",
	/* connections refused; packets that came before others that the card still expected; new points to begin at; lost on the wire */
	"lab_refused", "lab_ahead", "lab_resync", "lab_wire_lost",
	/* frames that AF_XDP sent without copies; the pieces that they were */
	"lab_xdp_frames", "lab_xdp_pieces",
};

struct card {
	struct net_device __rcu *peer;
	atomic64_t stat[STATS];
	struct queue queue;
};

/* State of a connection on a card. */
struct flow {
	spinlock_t lock;	/* sending against a new point to begin at */
	struct crypto_aead *aead;
	u8 salt[4];
	u32 next;		/* the sequence number that is expected */
	u64 number;		/* of the record that it lies in */
	u32 have;		/* bytes of that record seen so far */
	u8 *record;		/* these, as they came */
	u8 *sealed;		/* and sealed */
};

/* A record's header and its explicit nonce (RFC 5288). */
#define HEAD (TLS_HEADER_SIZE + 8)
#define RECORD_MAX (HEAD + TLS_MAX_PAYLOAD_SIZE + TLS_TAG_SIZE)

#define CARDS_MAX 16
static struct net_device *cards[CARDS_MAX];

static void count(struct net_device *dev, int what, s64 more)
{
	atomic64_add(more, &((struct card *)netdev_priv(dev))->stat[what]);
}

static s64 counted(struct net_device *dev, int what)
{
	return atomic64_read(&((struct card *)netdev_priv(dev))->stat[what]);
}

/* --- connections ----------------------------------------------------------------------------------------------------- */

static struct flow **flow_of(struct tls_context *ctx)
{
	BUILD_BUG_ON(sizeof(struct flow *) > TLS_DRIVER_STATE_SIZE_TX);
	return __tls_driver_ctx(ctx, TLS_OFFLOAD_CTX_DIR_TX);
}

static void flow_free(struct flow *flow)
{
	if (!IS_ERR_OR_NULL(flow->aead))
		crypto_free_aead(flow->aead);
	kfree_sensitive(flow->record);
	kfree(flow->sealed);
	kfree(flow);
}

static struct flow *flow_new(const u8 *key, int key_len, const u8 *salt, const u8 *number, u32 seq)
{
	struct flow *flow = kzalloc(sizeof(*flow), GFP_KERNEL);
	int rc = -ENOMEM;

	if (!flow)
		return ERR_PTR(rc);
	spin_lock_init(&flow->lock);
	flow->record = kmalloc(RECORD_MAX, GFP_KERNEL);
	flow->sealed = kmalloc(RECORD_MAX, GFP_KERNEL);
	if (!flow->record || !flow->sealed)
		goto out;
	flow->aead = crypto_alloc_aead("gcm(aes)", 0, CRYPTO_ALG_ASYNC);
	if (IS_ERR(flow->aead)) {
		rc = PTR_ERR(flow->aead);
		goto out;
	}
	rc = crypto_aead_setkey(flow->aead, key, key_len) ?: crypto_aead_setauthsize(flow->aead, TLS_TAG_SIZE);
	if (rc)
		goto out;
	memcpy(flow->salt, salt, sizeof(flow->salt));
	flow->number = get_unaligned_be64(number);
	flow->next = seq;
	return flow;
out:
	flow_free(flow);
	return ERR_PTR(rc);
}

static int tls_add(struct net_device *dev, struct sock *sk, enum tls_offload_ctx_dir direction, struct tls_crypto_info *info, u32 seq)
{
	struct flow *flow;

	if (direction != TLS_OFFLOAD_CTX_DIR_TX || info->version != TLS_1_2_VERSION)
		return -EOPNOTSUPP;
	if (refuse || counted(dev, CTX) - counted(dev, DEL) >= room) {
		if (refuse)
			refuse--;
		count(dev, REFUSED, 1);
		return -ENOSPC;
	}
	if (info->cipher_type == TLS_CIPHER_AES_GCM_128) {
		struct tls12_crypto_info_aes_gcm_128 *keys = (void *)info;

		flow = flow_new(keys->key, sizeof(keys->key), keys->salt, keys->rec_seq, seq);
	} else if (info->cipher_type == TLS_CIPHER_AES_GCM_256) {
		struct tls12_crypto_info_aes_gcm_256 *keys = (void *)info;

		flow = flow_new(keys->key, sizeof(keys->key), keys->salt, keys->rec_seq, seq);
	} else {
		return -EOPNOTSUPP;
	}
	if (IS_ERR(flow))
		return PTR_ERR(flow);
	*flow_of(tls_get_ctx(sk)) = flow;
	count(dev, CTX, 1);
	return 0;
}

static void tls_del(struct net_device *dev, struct tls_context *ctx, enum tls_offload_ctx_dir direction)
{
	flow_free(*flow_of(ctx));
	*flow_of(ctx) = NULL;
	count(dev, DEL, 1);
}

/* The kernel announces that a record of this number will begin at seq. */
static int tls_resync(struct net_device *dev, struct sock *sk, u32 seq, u8 *number, enum tls_offload_ctx_dir direction)
{
	struct flow *flow = *flow_of(tls_get_ctx(sk));

	spin_lock_bh(&flow->lock);
	flow->next = seq;
	flow->number = get_unaligned_be64(number);
	flow->have = 0;
	spin_unlock_bh(&flow->lock);
	count(dev, RESYNC, 1);
	return 0;
}

static const struct tlsdev_ops tls_ops = {
	.tls_dev_add = tls_add,
	.tls_dev_del = tls_del,
	.tls_dev_resync = tls_resync,
};

/* --- sealing --------------------------------------------------------------------------------------------------------- */

/* Encrypts the available part of a record, which has text_len bytes of text when whole. The tag is right once it is whole. */
static int seal(struct flow *flow, u32 text_len)
{
	struct aead_request *request = aead_request_alloc(flow->aead, GFP_ATOMIC);
	u32 text = min(flow->have - HEAD, text_len);
	struct scatterlist in[2], out[2];
	u8 *aad = flow->sealed;	/* a scatterlist may not point to a stack */
	u8 nonce[12];
	int rc;

	/* The room before the sealed text is as large as the additional data. */
	BUILD_BUG_ON(HEAD != TLS_AAD_SPACE_SIZE);
	if (!request)
		return -ENOMEM;
	memcpy(nonce, flow->salt, 4);
	memcpy(nonce + 4, flow->record + TLS_HEADER_SIZE, 8);
	put_unaligned_be64(flow->number, aad);
	memcpy(aad + 8, flow->record, 3);
	put_unaligned_be16(text_len, aad + 11);
	sg_init_table(in, 2);
	sg_set_buf(in, aad, TLS_AAD_SPACE_SIZE);
	sg_set_buf(in + 1, flow->record + HEAD, text);
	sg_init_table(out, 2);
	sg_set_buf(out, aad, TLS_AAD_SPACE_SIZE);
	sg_set_buf(out + 1, flow->sealed + HEAD, text + TLS_TAG_SIZE);
	aead_request_set_callback(request, 0, NULL, NULL);
	aead_request_set_ad(request, TLS_AAD_SPACE_SIZE);
	aead_request_set_crypt(request, in, out, text, nonce);
	rc = crypto_aead_encrypt(request);
	aead_request_free(request);
	return rc;
}

/* Encrypts len bytes at p, which follow the bytes that the card has had of this connection. */
static int advance(struct flow *flow, u8 *p, u32 len)
{
	while (len) {
		bool has_length = flow->have >= TLS_HEADER_SIZE;
		u32 whole = TLS_HEADER_SIZE + (has_length ? get_unaligned_be16(flow->record + 3) : 0);
		u32 end = flow->have < HEAD ? min(whole, (u32)HEAD) : whole;
		u32 part = min(len, end - flow->have), from = flow->have;

		if (has_length && (whole > RECORD_MAX || whole < HEAD + TLS_TAG_SIZE))
			return -EPROTO;
		memcpy(flow->record + from, p, part);
		flow->have += part;
		if (from >= HEAD) {
			int rc = seal(flow, whole - HEAD - TLS_TAG_SIZE);

			if (rc)
				return rc;
			memcpy(p, flow->sealed + from, part);
		}
		if (has_length && flow->have == whole) {
			flow->have = 0;
			flow->number++;
		}
		flow->next += part;
		p += part;
		len -= part;
	}
	return 0;
}

static void count_sealed(struct net_device *dev, struct sk_buff *skb, u32 len)
{
	count(dev, PACKETS, max_t(u32, 1, skb_shinfo(skb)->gso_segs));
	count(dev, BYTES, len);
}

/* Counts the bytes that a card would read again of the record that contains seq. */
static void count_dump(struct net_device *dev, struct tls_context *ctx, u32 seq)
{
	struct tls_offload_context_tx *tx = tls_offload_ctx_tx(ctx);
	struct tls_record_info *record;
	unsigned long flags;
	u64 number;

	spin_lock_irqsave(&tx->lock, flags);
	record = tls_get_record(tx, seq, &number);
	if (record && !tls_record_is_start_marker(record))
		count(dev, DUMP_BYTES, seq - tls_record_start_seq(record));
	spin_unlock_irqrestore(&tx->lock, flags);
}

static struct sk_buff *in_order(struct net_device *dev, struct flow *flow, struct sk_buff *skb, u32 head, u32 len)
{
	struct sk_buff *copy = skb_copy(skb, GFP_ATOMIC);

	if (copy && advance(flow, copy->data + head, len)) {
		kfree_skb(copy);
		copy = NULL;
	}
	if (copy) {
		count_sealed(dev, skb, len);
		consume_skb(skb);
	} else {
		count(dev, NO_SYNC, 1);
		kfree_skb(skb);
	}
	return copy;
}

static struct sk_buff *offload(struct sk_buff *skb, struct net_device *dev)
{
	struct tls_context *ctx = tls_get_ctx(skb->sk);
	u32 seq = ntohl(tcp_hdr(skb)->seq), head = skb_tcp_all_headers(skb), len = skb->len - head;
	struct flow *flow = *flow_of(ctx);
	struct net_device *owner = rcu_dereference_bh(ctx->netdev);

	if (!len)
		return skb;
	/* While the card goes down there is no owner; the flow stays until that has waited for us. */
	if (WARN_ON_ONCE(owner && owner != dev)) {
		kfree_skb(skb);
		return NULL;
	}
	spin_lock(&flow->lock);
	if (!tls_offload_tx_resync_pending(skb->sk)) {
		if (seq == flow->next) {
			skb = in_order(dev, flow, skb, head, len);
			spin_unlock(&flow->lock);
			return skb;
		}
		if (before(flow->next, seq)) {
			count(dev, AHEAD, 1);
			tls_offload_tx_resync_request(skb->sk, seq, flow->next);
		}
	}
	spin_unlock(&flow->lock);
	count(dev, OOO, 1);
	count(dev, RESYNC_BYTES, len);
	count_dump(dev, ctx, seq);
	skb = tls_encrypt_skb(skb);
	if (!skb)
		count(dev, NO_SYNC, 1);
	return skb;
}

/* --- the wire -------------------------------------------------------------------------------------------------------- */

static bool is_for_the_card(struct sk_buff *skb)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
	return tls_is_skb_tx_device_offloaded(skb);
#else
	return skb->sk && tls_is_sk_tx_device_offloaded(skb->sk);
#endif
}

static bool arrived_as_frame(struct net_device *peer, struct sk_buff *skb)
{
#if HAS_FRAMES
	return frame_arrived(&((struct card *)netdev_priv(peer))->queue, skb);
#else
	return false;
#endif
}

static void onto_wire(struct sk_buff *skb, struct net_device *dev, struct net_device *peer)
{
	u32 len = skb->len;

	if (lose && get_random_u32() % lose == 0) {
		count(dev, LOST, 1);
		kfree_skb(skb);
		return;
	}
	skb_orphan(skb);
	skb->decrypted = 0;
	if (arrived_as_frame(peer, skb) || dev_forward_skb(peer, skb) == NET_RX_SUCCESS) {
		dev->stats.tx_packets++;
		dev->stats.tx_bytes += len;
	} else {
		dev->stats.tx_dropped++;
	}
}

/* Segments for the wire, made after sealing, as cards do it. */
static void onto_wire_segmented(struct sk_buff *skb, struct net_device *dev, struct net_device *peer)
{
	struct sk_buff *segments = skb_gso_segment(skb, NETIF_F_HW_CSUM | NETIF_F_SG), *segment, *next;

	if (IS_ERR_OR_NULL(segments)) {
		kfree_skb(skb);
		return;
	}
	consume_skb(skb);
	skb_list_walk_safe(segments, segment, next) {
		skb_mark_not_on_list(segment);
		onto_wire(segment, dev, peer);
	}
}

static netdev_tx_t card_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct card *card = netdev_priv(dev);
	struct net_device *peer;

	if (is_for_the_card(skb))
		skb = offload(skb, dev);
	if (!skb)
		return NETDEV_TX_OK;
	rcu_read_lock();
	peer = rcu_dereference(card->peer);
	if (!peer)
		kfree_skb(skb);
	else if (skb_is_gso(skb))
		onto_wire_segmented(skb, dev, peer);
	else
		onto_wire(skb, dev, peer);
	rcu_read_unlock();
	return NETDEV_TX_OK;
}

#if HAS_FRAMES
void frame_onto_wire(struct net_device *dev, struct sk_buff *skb)
{
	struct net_device *peer;

	rcu_read_lock();
	peer = rcu_dereference(((struct card *)netdev_priv(dev))->peer);
	if (peer)
		onto_wire(skb, dev, peer);
	else
		kfree_skb(skb);
	rcu_read_unlock();
}

void count_frame(struct net_device *dev, u32 pieces)
{
	count(dev, FRAMES, 1);
	count(dev, PIECES, pieces);
}

static int card_bpf(struct net_device *dev, struct netdev_bpf *asked)
{
	return frames_bpf(dev, &((struct card *)netdev_priv(dev))->queue, asked);
}

static int card_wakeup(struct net_device *dev, u32 queue, u32 flags)
{
	return queue ? -EINVAL : frames_wakeup(&((struct card *)netdev_priv(dev))->queue, flags);
}
#endif

/* A wire has a carrier while both ends are up. */
static int card_open(struct net_device *dev)
{
	struct net_device *peer = rtnl_dereference(((struct card *)netdev_priv(dev))->peer);
#if HAS_FRAMES
	int rc = frames_open(&((struct card *)netdev_priv(dev))->queue);

	if (rc)
		return rc;
#endif
	if (peer && peer->flags & IFF_UP) {
		netif_carrier_on(dev);
		netif_carrier_on(peer);
	}
	return 0;
}

static int card_stop(struct net_device *dev)
{
	struct net_device *peer = rtnl_dereference(((struct card *)netdev_priv(dev))->peer);

	netif_carrier_off(dev);
	if (peer)
		netif_carrier_off(peer);
#if HAS_FRAMES
	frames_stop(&((struct card *)netdev_priv(dev))->queue);
#endif
	return 0;
}

static const struct net_device_ops card_ops = {
	.ndo_open = card_open,
	.ndo_stop = card_stop,
	.ndo_start_xmit = card_xmit,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_set_mac_address = eth_mac_addr,
#if HAS_FRAMES
	.ndo_bpf = card_bpf,
	.ndo_xsk_wakeup = card_wakeup,
#endif
};

/* --- ethtool --------------------------------------------------------------------------------------------------------- */

static int stat_count(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? STATS : -EOPNOTSUPP;
}

static void stat_strings(struct net_device *dev, u32 set, u8 *to)
{
	if (set == ETH_SS_STATS)
		memcpy(to, stat_names, sizeof(stat_names));
}

static void stat_values(struct net_device *dev, struct ethtool_stats *stats, u64 *to)
{
	int i;

	for (i = 0; i < STATS; i++)
		to[i] = counted(dev, i);
}

/* A bond with LACP accepts only cards of a known speed. */
static int link_settings(struct net_device *dev, struct ethtool_link_ksettings *to)
{
	to->base.speed = SPEED_10000;
	to->base.duplex = DUPLEX_FULL;
	to->base.port = PORT_TP;
	return 0;
}

static const struct ethtool_ops card_ethtool_ops = {
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = link_settings,
	.get_sset_count = stat_count,
	.get_strings = stat_strings,
	.get_ethtool_stats = stat_values,
};

/* --- the module ------------------------------------------------------------------------------------------------------ */

static void card_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &card_ops;
	dev->ethtool_ops = &card_ethtool_ops;
	dev->tlsdev_ops = &tls_ops;
	/* Without checksums by the card, the kernel takes TLS off as well. */
	dev->hw_features = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_RXCSUM | NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_HIGHDMA |
			   NETIF_F_HW_TLS_TX;
	dev->features |= dev->hw_features;
	dev->max_mtu = ETH_MAX_MTU;
	eth_hw_addr_random(dev);
#if HAS_FRAMES
	frames_setup(dev, &((struct card *)netdev_priv(dev))->queue);
#endif
}

static void stop(void)
{
	int i;

	rtnl_lock();
	for (i = 0; i < CARDS_MAX && cards[i]; i++)
		RCU_INIT_POINTER(((struct card *)netdev_priv(cards[i]))->peer, NULL);
	rtnl_unlock();
	synchronize_net();
	for (i = 0; i < CARDS_MAX && cards[i]; i++) {
		unregister_netdev(cards[i]);
		free_netdev(cards[i]);
		cards[i] = NULL;
	}
#if HAS_FRAMES
	frames_no_hardware();
#endif
}

static int __init start(void)
{
	int i, rc;

#if HAS_FRAMES
	rc = frames_hardware();
	if (rc)
		return rc;
#endif
	for (i = 0; i < 2 * min(pairs, CARDS_MAX / 2u); i++) {
		struct net_device *dev = alloc_netdev(sizeof(struct card), "card%d", NET_NAME_ENUM, card_setup);

		rc = dev ? register_netdev(dev) : -ENOMEM;
		if (rc) {
			if (dev)
				free_netdev(dev);
			stop();
			return rc;
		}
		netif_carrier_off(dev);
		cards[i] = dev;
		if (i % 2) {
			rcu_assign_pointer(((struct card *)netdev_priv(dev))->peer, cards[i - 1]);
			rcu_assign_pointer(((struct card *)netdev_priv(cards[i - 1]))->peer, dev);
		}
	}
	return 0;
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Pairs of network cards with TLS transmit offload, for tests");
