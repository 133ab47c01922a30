package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// deliveryFields are in the order of scanDelivery.
const deliveryFields = sqlstore.DeliveryColumns

func scanDelivery(row pgx.Row) (d hook.Delivery, err error) {
	err = sqlstore.ScanDelivery(row, &d)
	return d, err
}
