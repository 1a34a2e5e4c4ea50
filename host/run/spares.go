package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tsduel/host/record"
)

// replaceSpoilt runs spare blocks in place of blocks that were spoilt from outside. A failed
// block is not replaced: the variant is to blame.
func (d *driver) replaceSpoilt(ctx context.Context) error {
	if err := d.judge(); err != nil {
		return err
	}
	var counted, spares []record.BlockRow
	for _, row := range slices.Concat(d.lost, d.rows) {
		if row.Kind != "warmup" {
			counted = append(counted, row)
			if row.Kind == "spare" && row.Host == d.share.Host {
				spares = append(spares, row)
			}
		}
	}
	for i := 0; i < len(counted); i++ {
		row := counted[i]
		causes := d.spoilt(row.Block)
		if causes == "" || slices.ContainsFunc(spares, func(spare record.BlockRow) bool {
			b := d.blocks[spare.Block]
			return b != nil && b.Replaces == row.Block
		}) {
			continue
		}
		next := slices.IndexFunc(spares, func(spare record.BlockRow) bool { return d.blocks[spare.Block] == nil })
		if next < 0 {
			d.Events.Note(row.Block, "", "", "it does not count, and no spare block is left: "+causes)
			continue
		}
		// The coins of the spoilt block keep the design balanced. If it is a spare itself, its record has them.
		spare := spares[next]
		spare.Replaces, spare.Coins = row.Block, row.Coins
		if b := d.blocks[row.Block]; b != nil {
			spare.Coins = b.Coins
		}
		d.Events.Emit("block-replaced", record.Fields{"block": row.Block, "spare": spare.Block, "message": causes})
		if err := d.block(ctx, spare); err != nil {
			return err
		}
		i = -1 // look at all blocks again: the new one is spoilt, perhaps, and the others are judged anew
	}
	return nil
}

// spoilt says why a block does not count although it has not failed; "" if it counts or has failed.
func (d *driver) spoilt(block int) string {
	if slices.Contains(d.share.Lost, block) {
		return "the host that was to run it was lost"
	}
	b := d.blocks[block]
	if b == nil || b.Status != record.OK {
		return ""
	}
	causes := d.causes(block)
	if b.Void != "" {
		causes = append([]string{b.Void}, causes...)
	}
	if len(causes) > 2 {
		return fmt.Sprintf("%s; %s; and %d more", causes[0], causes[1], len(causes)-2)
	}
	return strings.Join(causes, "; ")
}
